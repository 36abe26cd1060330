#include "ops/linear.h"

namespace maxtext {
namespace {

double product_flops(const TensorSpec& rows, const TensorSpec& weight) {
  return 2.0 * static_cast<double>(row_count(rows.shape)) * static_cast<double>(weight.elements());
}

/// `rows` [..., n] with n = weight.shape[axis].
void check_product(std::string_view name, const TensorSpec& rows, const TensorSpec& weight, std::size_t axis,
                   std::string_view expected, InputSpecs inputs) {
  require_floating(rows.dtype, name, inputs);
  require_shape(weight.shape.size() == 2 && !rows.shape.empty() && rows.shape.back() == weight.shape[axis], name,
                inputs, expected);
}

TensorSpec with_last(TensorSpec spec, std::int64_t last) {
  spec.shape.back() = last;
  return spec;
}

}  // namespace

std::vector<OutputSpec> Linear::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {2, 3});
  check_product(name, inputs[0], inputs[1], 1, "expected x [..., I] and weight [O, I]", inputs);
  const DType stored = inputs[1].dtype;
  require_shape(reads_stored(inputs[0].dtype, stored), name, inputs,
                "x and weight must have one dtype, or x float32 and weight bfloat16 or float16");
  const std::int64_t out = inputs[1].shape[0];
  if (inputs.size() == 3) {
    const TensorSpec& bias = inputs[2];
    require_shape(bias.shape == Shape{out} && (bias.dtype == inputs[0].dtype || bias.dtype == stored), name, inputs,
                  "bias must be [O] in the dtype of x or of weight");
  }
  TensorSpec y = with_last(inputs[0], out);
  if (wide_result) y.dtype = accumulation_dtype(y.dtype);
  return {{.spec = y}};
}

double Linear::flops(InputSpecs inputs) const { return product_flops(inputs[0], inputs[1]); }

std::vector<OutputSpec> LinearBackwardInput::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {2, 3});
  check_product(name, inputs[0], inputs[1], 0, "expected dy [..., O] and weight [O, I]", inputs);
  require_shape(inputs[0].dtype == inputs[1].dtype, name, inputs, "dy and weight must have one dtype");
  const TensorSpec dx = with_last(inputs[0], inputs[1].shape[1]);
  const bool in_place = inputs.size() == 3;
  if (in_place) require_shape(inputs[2] == dx, name, inputs, "destination must be [..., I] in the dtype of dy");
  return {{.spec = dx, .aliases_input = in_place ? 2 : -1}};
}

double LinearBackwardInput::flops(InputSpecs inputs) const { return product_flops(inputs[0], inputs[1]); }

std::vector<OutputSpec> LinearBackwardWeight::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {3});
  check_product(name, inputs[0], inputs[2], 0, "expected dy [..., O] and destination [O, I]", inputs);
  require_shape(inputs[1] == TensorSpec{with_last(inputs[0], inputs[2].shape[1]).shape, inputs[0].dtype}, name, inputs,
                "x must be [..., I] with the rows and dtype of dy");
  require_shape(inputs[2].dtype == accumulation_dtype(inputs[0].dtype), name, inputs,
                "destination must have the accumulation dtype");
  return {{.spec = inputs[2], .aliases_input = 2}};
}

double LinearBackwardWeight::flops(InputSpecs inputs) const { return product_flops(inputs[0], inputs[2]); }

std::vector<OutputSpec> BiasBackward::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {2});
  require_floating(inputs[0].dtype, name, inputs);
  require_shape(!inputs[0].shape.empty() &&
                    inputs[1] == TensorSpec{{inputs[0].shape.back()}, accumulation_dtype(inputs[0].dtype)},
                name, inputs, "expected dy [..., O] and destination [O] in the accumulation dtype");
  return {{.spec = inputs[1], .aliases_input = 1}};
}

}  // namespace maxtext
