// What the shape rules of the ops of decoding accept, and that they name op and inputs where they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/shape_rules.h"

namespace maxtext {
namespace {

using ::testing::HasSubstr;

std::vector<TensorSpec> replaced(std::vector<TensorSpec> inputs, std::size_t i, TensorSpec spec) {
  inputs[i] = std::move(spec);
  return inputs;
}

TEST(DecodeShapeRules, DecodeAttention) {
  const std::vector<TensorSpec> inputs{f32({2, 3, 6, 8}), bf16({2, 2, 5, 8}), bf16({2, 2, 5, 8}), i32({2}), i32({2})};
  EXPECT_EQ(specs(DecodeAttention{}, inputs), (std::vector{f32({2, 3, 6, 8}), f32({2, 6, 3}), f32({2, 6, 3})}));
  auto more = inputs;
  more.push_back(f32({6}));
  EXPECT_EQ(specs(DecodeAttention{.has_sinks = true}, more).size(), 3U);
  EXPECT_THAT(refusal(DecodeAttention{}, more), HasSubstr("wrong number of inputs"));
  EXPECT_THAT(refusal(DecodeAttention{.has_sinks = true}, inputs), HasSubstr("wrong number of inputs"));
  EXPECT_THAT(refusal(DecodeAttention{.has_sinks = true}, replaced(more, 5, f32({2}))), HasSubstr("sinks"));
  EXPECT_THAT(refusal(DecodeAttention{}, replaced(inputs, 0, bf16({2, 3, 6, 8}))), HasSubstr("q must be float32"));
  EXPECT_THAT(refusal(DecodeAttention{}, replaced(inputs, 0, f32({2, 0, 6, 8}))), HasSubstr("T at least 1"));
  EXPECT_THAT(refusal(DecodeAttention{}, replaced(inputs, 0, f32({2, 3, 5, 8}))), HasSubstr("multiple of kv_heads"));
  EXPECT_THAT(refusal(DecodeAttention{}, replaced(inputs, 0, f32({2, 3, 6, 4}))), HasSubstr("head_dim"));
  EXPECT_THAT(refusal(DecodeAttention{}, replaced(inputs, 2, f32({2, 2, 5, 8}))), HasSubstr("one spec"));
  EXPECT_THAT(refusal(DecodeAttention{}, replaced(inputs, 4, i32({3}))), HasSubstr("kv_seq_len"));
  EXPECT_THAT(refusal(DecodeAttention{.window = -1}, inputs), HasSubstr("negative"));
  const std::string message = refusal(DecodeAttention{}, replaced(inputs, 3, f32({2})));
  EXPECT_THAT(message, HasSubstr("decode_attention(float32[2, 3, 6, 8], bfloat16[2, 2, 5, 8]"));
}

TEST(DecodeShapeRules, DecodeAttentionOverInt8NeedsScales) {
  const std::vector<TensorSpec> inputs{f32({2, 1, 6, 8}), i8({2, 2, 5, 8}), i8({2, 2, 5, 8}), i32({2}),
                                       i32({2}),          f32({2, 2, 5}),   f32({2, 2, 5})};
  EXPECT_EQ(specs(DecodeAttention{}, inputs)[0], f32({2, 1, 6, 8}));
  EXPECT_THAT(refusal(DecodeAttention{}, {inputs.begin(), inputs.end() - 2}), HasSubstr("wrong number of inputs"));
  EXPECT_THAT(refusal(DecodeAttention{}, replaced(inputs, 6, f32({2, 5, 2}))), HasSubstr("v_scale"));
}

TEST(DecodeShapeRules, CacheAppend) {
  const std::vector<TensorSpec> inputs{bf16({2, 3, 5, 8}), f32({2, 4, 3, 8}), i32({2})};
  const auto outputs = infer(CacheAppend{}, inputs);
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_EQ(outputs[0].spec, inputs[0]);
  EXPECT_EQ(outputs[0].aliases_input, 0);
  EXPECT_FALSE(outputs[0].view);
  EXPECT_THAT(refusal(CacheAppend{}, replaced(inputs, 1, f32({2, 4, 2, 8}))), HasSubstr("must agree"));
  EXPECT_THAT(refusal(CacheAppend{}, replaced(inputs, 1, bf16({2, 4, 3, 8}))), HasSubstr("new rows must be float32"));
  EXPECT_THAT(refusal(CacheAppend{}, replaced(inputs, 2, i32({1}))), HasSubstr("position"));
  EXPECT_THAT(refusal(CacheAppend{}, replaced(inputs, 0, i32({2, 3, 5, 8}))), HasSubstr("the cache must be"));
  EXPECT_THAT(refusal(CacheAppend{.has_rows = true}, inputs), HasSubstr("wrong number of inputs"));
  const std::vector<TensorSpec> quantized{i8({2, 3, 5, 8}), f32({2, 4, 3, 8}), i32({2}), f32({2, 3, 5}), i32({2})};
  const auto both = infer(CacheAppend{.has_rows = true}, quantized);
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[1].spec, f32({2, 3, 5}));
  EXPECT_EQ(both[1].aliases_input, 3);
  EXPECT_THAT(refusal(CacheAppend{.has_rows = true}, replaced(quantized, 4, f32({2}))),
              HasSubstr("rows must be int32"));
}

TEST(DecodeShapeRules, MergeStates) {
  const std::vector<TensorSpec> inputs{f32({4, 2, 3, 6, 8}), f32({4, 2, 6, 3}), f32({4, 2, 6, 3})};
  EXPECT_EQ(specs(MergeStates{}, inputs), (std::vector{f32({2, 3, 6, 8}), f32({2, 6, 3}), f32({2, 6, 3})}));
  EXPECT_THAT(refusal(MergeStates{}, replaced(inputs, 1, f32({4, 2, 3, 6}))), HasSubstr("l and m"));
  EXPECT_THAT(refusal(MergeStates{}, replaced(inputs, 0, f32({2, 3, 6, 8}))), HasSubstr("o must be"));
  EXPECT_THAT(refusal(MergeStates{.has_sinks = true}, inputs), HasSubstr("wrong number of inputs"));
}

}  // namespace
}  // namespace maxtext
