// The fused projection and cross-entropy in chunks of tokens.
#include <limits>

#include "xla/ops_on_plugin.h"
#include "xla/traced_text.h"

namespace maxtext::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Of two sequences of 5 tokens with 3 features and 11 words; token 3 has weight 0, NaN and no target.
std::vector<Tensor> loss_inputs(Engine& engine, bool with_gradient) {
  std::vector<float> hidden = some_values(30, 0);
  std::fill_n(hidden.begin() + 9, 3, kNaN);
  std::vector<Tensor> inputs = {
      input_of<float>(engine, {2, 5, 3}, hidden), input_of<float>(engine, {11, 3}, some_values(33, 1)),
      input_of<std::int32_t>(engine, {2, 5}, {0, 10, 3, -1, 5, 5, 7, 2, 1, 9}),
      input_of<float>(engine, {2, 5}, {1, 0.5F, 1, 0, 1, 1, 2, 1, 1, 0.25F}), input_of<float>(engine, {}, {0.125F})};
  if (with_gradient) inputs.push_back(input_of<float>(engine, {11, 3}, some_values(33, 2)));
  return inputs;
}

std::vector<Tensor> loss_of(Engine& engine, const LinearCrossEntropy& op) {
  std::vector<Tensor> outputs = engine.apply(op, loss_inputs(engine, op.with_gradient));
  outputs[0] = engine.apply_one(Cast{DType::float32}, {outputs[0]});
  return outputs;
}

TEST_F(XlaOpsOnPlugin, CrossEntropyInChunksIsThatOfAllTokens) {
  // One chunk; chunks of 3 tokens, the last padded; single tokens.
  for (const std::int64_t chunk : {1024, 4, 1}) {
    for (const double softcap : {0.0, 2.0}) {
      for (const bool accumulate : {false, true}) {
        expect_equal([&](Engine& engine) {
          return loss_of(
              engine, {.chunk_tokens = chunk, .z_loss_multiplier = 1e-2, .softcap = softcap, .accumulate = accumulate});
        });
      }
    }
  }
}

TEST_F(XlaOpsOnPlugin, CrossEntropyWithoutGradient) {
  expect_equal([](Engine& engine) { return loss_of(engine, {.chunk_tokens = 4, .with_gradient = false}); });
}

TEST_F(XlaOpsOnPlugin, CrossEntropyInDoubleStaysInDouble) {
  const auto program = [](Engine& engine) {
    std::vector<Tensor> inputs = loss_inputs(engine, true);
    for (const std::size_t i : {0, 1, 5}) inputs[i] = engine.apply_one(Cast{DType::float64}, {inputs[i]});
    std::vector<Tensor> outputs = engine.apply(LinearCrossEntropy{.chunk_tokens = 4, .softcap = 2}, inputs);
    // Seven digits of float32 hide the others: what is left of a sum without its float32 value shows them.
    const Tensor sums = outputs[0];
    const Tensor rounded = engine.apply_one(Cast{DType::float64}, {engine.apply_one(Cast{DType::float32}, {sums})});
    const Tensor rest = engine.apply_one(Add{}, {sums, engine.apply_one(Scale{.factor = -1}, {rounded})});
    outputs = {sums, rest, outputs[2], outputs[3]};
    for (Tensor& output : outputs) output = engine.apply_one(Cast{DType::float32}, {output});
    return outputs;
  };
  expect_equal(program);
}

TEST(XlaCrossEntropy, LogitsOfAllTokensNeverExist) {
  const std::string text = traced_text([](Engine& engine) { return loss_of(engine, {.chunk_tokens = 4}); });
  EXPECT_EQ(text.find("tensor<10x11x"), std::string::npos);
  EXPECT_EQ(text.find("tensor<12x11x"), std::string::npos);
  EXPECT_NE(text.find("tensor<4x11xf32>"), std::string::npos);
}

}  // namespace
}  // namespace maxtext::testing
