#include "ops/rope.h"

namespace maxtext {

std::vector<OutputSpec> RopeTable::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {1});
  require_shape(inputs[0].dtype == DType::int32 && inputs[0].shape.size() == 2, name, inputs,
                "position_ids must be int32 [B, T]");
  require_shape(dtype == DType::float32 || dtype == DType::float64, name, inputs, "tables are float32 or float64");
  require_shape(!inverse_frequencies.empty(), name, inputs, "needs inverse frequencies");
  TensorSpec table{inputs[0].shape, dtype};
  table.shape.push_back(static_cast<std::int64_t>(inverse_frequencies.size()));
  return {{.spec = table}, {.spec = table}};
}

std::vector<OutputSpec> Rope::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {3});
  const Shape& x = inputs[0].shape;
  require_floating(inputs[0].dtype, name, inputs);
  require_shape(x.size() == 4 && x[3] % 2 == 0, name, inputs, "x must be [B, T, H, D] with D even");
  const TensorSpec table{{x[0], x[1], x[3] / 2}, accumulation_dtype(inputs[0].dtype)};
  require_shape(inputs[1] == table && inputs[2] == table, name, inputs,
                "cos and sin must be [B, T, D/2] in the accumulation dtype");
  return {{.spec = inputs[0]}};
}

}  // namespace maxtext
