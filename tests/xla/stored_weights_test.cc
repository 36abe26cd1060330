// Ops on parameters as they are stored, bfloat16 and float16 beside float32 activations, on a plugin.
#include <gtest/gtest.h>

#include "tensor/half.h"
#include "xla/ops_on_plugin.h"

namespace maxtext::testing {
namespace {

Tensor stored(Engine& engine, Shape shape, DType dtype, double phase) {
  const TensorSpec spec{std::move(shape), dtype};
  std::vector<std::byte> bytes(static_cast<std::size_t>(spec.bytes()));
  convert_from_float(some_values(spec.elements(), phase), dtype, bytes);
  return engine.input(spec, bytes);
}

TEST_F(XlaOpsOnPlugin, StoredWeightsAreWidened) {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    expect_equal([dtype](Engine& engine) -> std::vector<Tensor> {
      const Tensor x = input_of<float>(engine, {2, 3, 33}, some_values(2 * 3 * 33, 0));
      const Tensor weight = stored(engine, {7, 33}, dtype, 1);
      const Tensor bias = stored(engine, {7}, dtype, 2);
      const Tensor wide_bias = input_of<float>(engine, {7}, some_values(7, 2));
      const Tensor scale = stored(engine, {33}, dtype, 3);
      const Tensor ids = input_of<std::int32_t>(engine, {2, 2}, {6, 0, 3, 6});
      const Tensor far_ids = input_of<std::int32_t>(engine, {3}, {9, 12, 17});
      const Tensor first = input_of<std::int32_t>(engine, {}, {9});
      return {engine.apply_one(Linear{}, {x, weight}),
              engine.apply_one(Linear{}, {x, weight, bias}),
              engine.apply_one(Linear{}, {x, weight, wide_bias}),
              engine.apply_one(RmsNorm{.epsilon = 1e-5, .weight_offset = 1}, {x, scale}),
              engine.apply_one(Embedding{}, {weight, ids}),
              engine.apply_one(Embedding{}, {weight, far_ids, first})};
    });
  }
}

}  // namespace
}  // namespace maxtext::testing
