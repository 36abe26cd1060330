// What the shape rules accept, and that they name op and inputs where they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/shape_rules.h"

namespace maxtext {
namespace {

using ::testing::HasSubstr;

TEST(ShapeRules, Linear) {
  EXPECT_EQ(specs(Linear{}, {f32({2, 3, 5}), f32({7, 5}), f32({7})}), (std::vector{f32({2, 3, 7})}));
  EXPECT_EQ(refusal(Linear{}, {f32({2, 4}), f32({7, 5})}),
            "linear(float32[2, 4], float32[7, 5]): expected x [..., I] and weight [O, I]");
  EXPECT_EQ(specs(Linear{}, {f32({2, 5}), bf16({7, 5}), bf16({7})}), (std::vector{f32({2, 7})}));
  EXPECT_EQ(specs(Linear{}, {f32({2, 5}), f16({7, 5}), f32({7})}), (std::vector{f32({2, 7})}));
  EXPECT_EQ(specs(Linear{.wide_result = true}, {bf16({2, 5}), bf16({7, 5})}), (std::vector{f32({2, 7})}));
  EXPECT_EQ(specs(Linear{.wide_result = true}, {f64({2, 5}), f64({7, 5})}), (std::vector{f64({2, 7})}));
  EXPECT_THAT(refusal(Linear{}, {f64({2, 5}), bf16({7, 5})}), HasSubstr("one dtype"));
  EXPECT_THAT(refusal(Linear{}, {bf16({2, 5}), f32({7, 5})}), HasSubstr("one dtype"));
  EXPECT_THAT(refusal(Linear{}, {bf16({2, 5}), f16({7, 5})}), HasSubstr("one dtype"));
  EXPECT_THAT(refusal(Linear{}, {f32({2, 5}), bf16({7, 5}), f16({7})}), HasSubstr("bias"));
  EXPECT_THAT(refusal(LinearBackwardInput{}, {f32({2, 7}), bf16({7, 5})}), HasSubstr("one dtype"));
  EXPECT_THAT(refusal(Linear{}, {f32({2, 5}), f32({7, 5}), f32({5})}), HasSubstr("bias"));
  EXPECT_THAT(refusal(Linear{}, {f32({2, 5})}), HasSubstr("wrong number of inputs"));
  EXPECT_THAT(refusal(Linear{}, {i32({2, 5}), i32({7, 5})}), HasSubstr("floating-point"));
  EXPECT_THAT(refusal(LinearBackwardInput{}, {f32({2, 5}), f32({7, 5})}), HasSubstr("dy [..., O]"));
  EXPECT_THAT(refusal(LinearBackwardWeight{}, {f32({2, 7}), f32({3, 5}), f32({7, 5})}),
              HasSubstr("rows and dtype of dy"));
  // Law 7: parameter gradients are fp32.
  EXPECT_EQ(specs(LinearBackwardWeight{}, {bf16({2, 7}), bf16({2, 5}), f32({7, 5})}), (std::vector{f32({7, 5})}));
  EXPECT_THAT(refusal(LinearBackwardWeight{}, {bf16({2, 7}), bf16({2, 5}), bf16({7, 5})}),
              HasSubstr("accumulation dtype"));
}

TEST(ShapeRules, SoftCaps) {
  EXPECT_EQ(specs(SoftCap{.cap = 30}, {f32({2, 4})}), (std::vector{f32({2, 4})}));
  EXPECT_EQ(infer(SoftCap{.cap = 30, .in_place = true}, std::vector{f32({2, 4})})[0].aliases_input, 0);
  EXPECT_THAT(refusal(SoftCap{.cap = 0}, {f32({2, 4})}), HasSubstr("cap must be positive"));
  EXPECT_THAT(refusal(SoftCap{.cap = 30}, {i32({2, 4})}), HasSubstr("floating-point"));
  const std::vector<TensorSpec> attention = {f32({1, 3, 2, 4}), f32({1, 1, 3, 2, 4}), f32({1, 1, 3, 2, 4}),
                                             i32({1, 3}),       i32({1, 3}),          i32({1, 3})};
  EXPECT_EQ(refusal(AttentionForward{.softcap = 5, .kv_heads = 2}, attention), "accepted");
  EXPECT_THAT(refusal(AttentionForward{.softcap = -5, .kv_heads = 2}, attention), HasSubstr("softcap"));
  const std::vector<TensorSpec> loss = {f32({3, 4}), f32({9, 4}), i32({3}), f32({3}), f32({})};
  EXPECT_THAT(refusal(LinearCrossEntropy{.softcap = -5, .with_gradient = false}, loss), HasSubstr("softcap"));
}

TEST(ShapeRules, ParametersAsTheyAreStored) {
  EXPECT_EQ(specs(RmsNorm{}, {f32({2, 4}), bf16({4})}), (std::vector{f32({2, 4})}));
  EXPECT_EQ(specs(RmsNorm{}, {f32({2, 4}), f16({4})}), (std::vector{f32({2, 4})}));
  EXPECT_THAT(refusal(RmsNorm{}, {f64({2, 4}), f16({4})}), HasSubstr("one dtype"));
  EXPECT_THAT(refusal(RmsNormBackward{}, {f32({2, 4}), f32({2, 4}), bf16({4}), f32({4})}), HasSubstr("one dtype"));
  EXPECT_EQ(specs(Embedding{}, {bf16({9, 4}), i32({2, 3})}), (std::vector{f32({2, 3, 4})}));
  EXPECT_EQ(specs(Embedding{}, {f16({9, 4}), i32({3})}), (std::vector{f32({3, 4})}));
  EXPECT_EQ(specs(Embedding{}, {f64({9, 4}), i32({3})}), (std::vector{f64({3, 4})}));
}

TEST(ShapeRules, EmbeddingOfAPartOfTheTable) {
  EXPECT_EQ(specs(Embedding{}, {bf16({9, 4}), i32({2, 3}), i32({})}), (std::vector{f32({2, 3, 4})}));
  EXPECT_THAT(refusal(Embedding{}, {f32({9, 4}), i32({3}), i32({1})}), HasSubstr("first_row must be int32 []"));
  EXPECT_THAT(refusal(Embedding{}, {f32({9, 4}), i32({3}), i32({}), i32({})}), HasSubstr("wrong number"));
  EXPECT_EQ(infer(EmbeddingBackward{}, std::vector{f32({3, 4}), i32({3}), f32({9, 4}), i32({})})[0].aliases_input, 2);
  EXPECT_THAT(refusal(EmbeddingBackward{}, {f32({3, 4}), i32({3}), f32({9, 4}), f32({})}),
              HasSubstr("first_row must be int32 []"));
}

TEST(ShapeRules, NormsRopeAndActivations) {
  EXPECT_THAT(refusal(RmsNorm{}, {f32({2, 4}), f32({5})}), HasSubstr("weight [N]"));
  EXPECT_THAT(refusal(RmsNormBackward{}, {f32({3, 4}), f32({2, 4}), f32({4}), f32({4})}), HasSubstr("dy and x"));
  const RopeTable table{.inverse_frequencies = {1, 0.1}};
  EXPECT_EQ(specs(table, {i32({2, 3})}), (std::vector{f32({2, 3, 2}), f32({2, 3, 2})}));
  EXPECT_THAT(refusal(RopeTable{}, {i32({2, 3})}), HasSubstr("inverse frequencies"));
  EXPECT_THAT(refusal(Rope{}, {f32({2, 3, 1, 5}), f32({2, 3, 2}), f32({2, 3, 2})}), HasSubstr("D even"));
  EXPECT_THAT(refusal(Rope{}, {f32({2, 3, 1, 4}), f32({2, 2, 2}), f32({2, 3, 2})}), HasSubstr("cos and sin"));
  EXPECT_THAT(refusal(GatedActivation{}, {f32({2}), f32({3})}), HasSubstr("one shape"));
}

TEST(ShapeRules, Layout) {
  EXPECT_THAT(refusal(Reshape{{5}}, {f32({2, 3})}), HasSubstr("[5] has another number of elements"));
  EXPECT_THAT(refusal(View{4, {3}}, {f32({2, 3})}), HasSubstr("does not lie within"));
  EXPECT_THAT(refusal(Slice{1, 2, 2}, {f32({2, 3})}), HasSubstr("exceed axis 1"));
  EXPECT_THAT(refusal(Slice{2, 0, 1}, {f32({2, 3})}), HasSubstr("axis does not exist"));
  EXPECT_EQ(specs(Concat{1}, {f32({2, 3}), f32({2, 4})}), (std::vector{f32({2, 7})}));
  EXPECT_THAT(refusal(Concat{0}, {f32({2, 3}), f32({2, 4})}), HasSubstr("along the axis only"));
  EXPECT_THAT(refusal(Transpose{{0, 0}}, {f32({2, 3})}), HasSubstr("every dimension once"));
  EXPECT_THAT(refusal(Take{}, {f32({2, 3}), f32({2})}), HasSubstr("int32 [M]"));
  EXPECT_TRUE(infer(Slice{1, 1, 1}, std::vector{f32({1, 3, 2})})[0].view);
  EXPECT_EQ(infer(Slice{1, 1, 1}, std::vector{f32({1, 3, 2})})[0].first_element, 2);
  EXPECT_FALSE(infer(Slice{1, 1, 1}, std::vector{f32({2, 3, 2})})[0].view);
}

TEST(ShapeRules, Attention) {
  const std::vector<TensorSpec> inputs{f32({2, 5, 6, 8}), f32({3, 2, 5, 1, 8}), f32({3, 2, 5, 1, 8}),
                                       i32({2, 15}),      i32({2, 5}),          i32({2, 5})};
  const AttentionForward op{.kv_heads = 2, .kv_head_begin = 1, .area = 10};
  EXPECT_EQ(specs(op, inputs), (std::vector{f32({2, 5, 6, 8}), f32({2, 6, 5})}));
  // One KV head of two has three of the six query heads.
  EXPECT_EQ(flops(op, inputs), 4.0 * 10 * 3 * 8);
  auto wrong = inputs;
  wrong[3] = i32({2, 5});
  EXPECT_THAT(refusal(op, wrong), HasSubstr("gathered_slots"));
  EXPECT_THAT(refusal(AttentionForward{.kv_heads = 2, .kv_head_begin = 2}, inputs), HasSubstr("within kv_heads"));
  EXPECT_THAT(refusal(AttentionForward{.kv_heads = 4}, inputs), HasSubstr("multiple of kv_heads"));
  auto backward = inputs;
  backward.insert(backward.end(), {f32({2, 5, 6, 8}), f32({2, 6, 5}), f32({2, 5, 6, 8}), f32({2, 5, 6, 8})});
  const AttentionBackward back{.kv_heads = 2, .kv_head_begin = 1, .area = 10};
  EXPECT_EQ(infer(back, backward)[0].aliases_input, 9);
  EXPECT_EQ(infer(back, backward)[1].spec, f32({3, 2, 5, 1, 8}));
  EXPECT_EQ(flops(back, backward), 2.5 * 4 * 10 * 3 * 8);
}

TEST(ShapeRules, CrossEntropy) {
  std::vector<TensorSpec> inputs{f32({2, 3, 4}), f32({9, 4}), i32({2, 3}), f32({2, 3}), f32({}), f32({9, 4})};
  EXPECT_EQ(specs(LinearCrossEntropy{}, inputs), (std::vector{f64({2}), f32({2, 3}), f32({2, 3, 4}), f32({9, 4})}));
  EXPECT_EQ(flops(LinearCrossEntropy{}, inputs), 3.0 * 2 * 6 * 4 * 9);
  inputs.pop_back();
  EXPECT_EQ(flops(LinearCrossEntropy{.with_gradient = false}, inputs), 2.0 * 6 * 4 * 9);
  EXPECT_THAT(refusal(LinearCrossEntropy{}, inputs), HasSubstr("wrong number"));
  inputs[2] = i32({6});
  EXPECT_THAT(refusal(LinearCrossEntropy{.with_gradient = false}, inputs), HasSubstr("targets"));
}

TEST(ShapeRules, CrossEntropyOverPartsOfTheVocabulary) {
  EXPECT_EQ(specs(LogitStatistics{}, {f32({6, 9}), i32({6}), i32({})}), (std::vector{f32({3, 6})}));
  EXPECT_EQ(specs(LogitStatistics{}, {f64({6, 9}), i32({6}), i32({})}), (std::vector{f64({3, 6})}));
  EXPECT_THAT(refusal(LogitStatistics{}, {bf16({6, 9}), i32({6}), i32({})}), HasSubstr("float32 or float64 [N, V]"));
  EXPECT_THAT(refusal(LogitStatistics{}, {f32({6, 9}), i32({9}), i32({})}), HasSubstr("targets"));
  EXPECT_THAT(refusal(LogitStatistics{}, {f32({6, 9}), i32({6}), i32({1})}), HasSubstr("first_row"));

  const CrossEntropyFromStatistics op{.vocabulary = 18};
  const std::vector<TensorSpec> inputs{f32({2, 3, 6}), i32({6}), f32({6}), f32({6, 9}), f32({}), i32({})};
  const std::vector<OutputSpec> outputs = infer(op, inputs);
  EXPECT_EQ(specs(op, inputs), (std::vector{f64({2}), f32({6}), f32({6, 9})}));
  EXPECT_EQ(outputs[2].aliases_input, 3);
  EXPECT_FALSE(outputs[2].view);
  const CrossEntropyFromStatistics forward{.vocabulary = 18, .with_gradient = false};
  EXPECT_EQ(specs(forward, {inputs[0], inputs[1], inputs[2]}), (std::vector{f64({2}), f32({6})}));
  EXPECT_THAT(refusal(forward, inputs), HasSubstr("wrong number"));
  EXPECT_THAT(refusal(CrossEntropyFromStatistics{}, inputs), HasSubstr("vocabulary"));
  EXPECT_THAT(refusal(CrossEntropyFromStatistics{.vocabulary = 18, .softcap = -1}, inputs), HasSubstr("softcap"));
  const auto with = [&](std::size_t index, const TensorSpec& spec) {
    std::vector<TensorSpec> changed = inputs;
    changed[index] = spec;
    return refusal(op, changed);
  };
  EXPECT_THAT(with(0, f32({2, 4, 6})), HasSubstr("[P, 3, N]"));
  EXPECT_THAT(with(1, i32({5})), HasSubstr("targets"));
  EXPECT_THAT(with(2, f64({6})), HasSubstr("target_weights"));
  EXPECT_THAT(with(3, f64({6, 9})), HasSubstr("dtype of the statistics"));
  EXPECT_THAT(with(4, f32({1})), HasSubstr("inverse_denominator"));
  EXPECT_THAT(with(5, i32({1})), HasSubstr("first_row"));
}

TEST(ShapeRules, MaskedRows) {
  EXPECT_EQ(specs(MaskRows{}, {bf16({2, 3, 4}), f32({2, 3})}), (std::vector{bf16({2, 3, 4})}));
  EXPECT_THAT(refusal(MaskRows{}, {f32({2, 3, 4}), f32({2})}), HasSubstr("weights"));
  EXPECT_THAT(refusal(MaskRows{}, {i32({2, 3}), f32({2})}), HasSubstr("floating-point"));
}

TEST(CrossEntropyChunks, LogitsOfAllChunksAliveStayWithinTheBound) {
  EXPECT_EQ(cross_entropy_chunk_tokens(1024, 32000, 4), 1024);
  EXPECT_EQ(cross_entropy_chunk_tokens(1024, 128256, 4), 512);
  EXPECT_EQ(cross_entropy_chunk_tokens(1024, 64128, 4, 2), 512);
  EXPECT_EQ(cross_entropy_chunk_tokens(1024, 128256, 8), 256);
  EXPECT_EQ(cross_entropy_chunk_tokens(1024, 1 << 20, 4), 256);
  EXPECT_EQ(cross_entropy_chunk_tokens(1024, 1 << 19, 4, 2), 128);
  EXPECT_EQ(cross_entropy_chunk_tokens(7, 1 << 20, 4, 2), 7);
}

TEST(ShapeRules, CollectivesAndOptimizers) {
  EXPECT_EQ(specs(AllGather{Axis::context, 3}, {i32({2}), bf16({4})}), (std::vector{i32({3, 2}), bf16({3, 4})}));
  EXPECT_EQ(specs(ReduceScatter{Axis::context, 3}, {f32({3, 2})}), (std::vector{f32({2})}));
  EXPECT_THAT(refusal(ReduceScatter{Axis::context, 3}, {f32({6})}), HasSubstr("the first dimension"));
  EXPECT_EQ(specs(AllReduce{Axis::context, 3}, {bf16({6})}), (std::vector{bf16({6})}));
  EXPECT_THAT(refusal(AllReduce{Axis::context, 3}, {i32({6})}), HasSubstr("floating-point"));
  EXPECT_THAT(refusal(AllReduce{Axis::context, 3}, {f32({6}), f64({1})}), HasSubstr("one dtype"));
  EXPECT_TRUE(infer(AllReduce{Axis::context, 1}, std::vector{f32({6})})[0].view);
  EXPECT_THAT(refusal(AdamW{}, {f32({6}), f32({6}), f32({6}), f32({5}), f32({3}), f32({2})}), HasSubstr("shards"));
  EXPECT_THAT(refusal(Sgd{}, {f32({6}), f32({6}), f32({2}), f32({2})}), HasSubstr("schedule"));
}

TEST(ShardSpec, DividesTheFirstDimension) {
  EXPECT_EQ(shard_spec(f32({6, 2}), 3), f32({2, 2}));
  EXPECT_THROW(shard_spec(f32({7, 2}), 3), Error);
}

}  // namespace
}  // namespace maxtext
