#include "ops/normalization.h"

namespace maxtext {
namespace {

void check_weight(std::string_view name, const TensorSpec& x, const TensorSpec& weight, InputSpecs inputs) {
  require_floating(x.dtype, name, inputs);
  require_shape(!x.shape.empty() && weight.shape == Shape{x.shape.back()}, name, inputs,
                "expected x [..., N] and weight [N]");
}

}  // namespace

std::vector<OutputSpec> RmsNorm::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {2});
  check_weight(name, inputs[0], inputs[1], inputs);
  require_shape(reads_stored(inputs[0].dtype, inputs[1].dtype), name, inputs,
                "x and weight must have one dtype, or x float32 and weight bfloat16 or float16");
  return {{.spec = inputs[0]}};
}

std::vector<OutputSpec> RmsNormBackward::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {4});
  check_weight(name, inputs[1], inputs[2], inputs);
  require_shape(inputs[1].dtype == inputs[2].dtype, name, inputs, "x and weight must have one dtype");
  require_shape(inputs[0] == inputs[1], name, inputs, "dy and x must have one shape and dtype");
  require_shape(inputs[3] == TensorSpec{inputs[2].shape, accumulation_dtype(inputs[2].dtype)}, name, inputs,
                "the destination must be [N] in the accumulation dtype");
  return {{.spec = inputs[1]}, {.spec = inputs[3], .aliases_input = 3}};
}

}  // namespace maxtext
