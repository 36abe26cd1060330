#include "ops/elementwise.h"

namespace maxtext {

std::vector<OutputSpec> Add::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {2});
  require_floating(inputs[0].dtype, name, inputs);
  require_shape(inputs[0] == inputs[1], name, inputs, "both terms must have one shape and dtype");
  return {{.spec = inputs[0], .aliases_input = in_place ? 0 : -1}};
}

std::vector<OutputSpec> Scale::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {1});
  require_floating(inputs[0].dtype, name, inputs);
  return {{.spec = inputs[0]}};
}

std::vector<OutputSpec> SoftCap::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {1});
  require_floating(inputs[0].dtype, name, inputs);
  require_shape(cap > 0, name, inputs, "cap must be positive");
  return {{.spec = inputs[0], .aliases_input = in_place ? 0 : -1}};
}

std::vector<OutputSpec> MaskRows::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {2});
  const TensorSpec& x = inputs[0];
  require_floating(x.dtype, name, inputs);
  require_shape(!x.shape.empty(), name, inputs, "x must be [..., N]");
  const Shape rows(x.shape.begin(), x.shape.end() - 1);
  require_shape(inputs[1] == TensorSpec{rows, DType::float32}, name, inputs, "weights must be float32 [...]");
  return {{.spec = x}};
}

std::vector<OutputSpec> Cast::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {1});
  require_floating(inputs[0].dtype, name, inputs);
  require_floating(dtype, name, inputs);
  return {{.spec = {inputs[0].shape, dtype}}};
}

std::vector<OutputSpec> Assign::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {2});
  require_shape(inputs[0].dtype == inputs[1].dtype && inputs[0].elements() == inputs[1].elements(), name, inputs,
                "expected two tensors of one dtype and number of elements");
  return {{.spec = inputs[1], .aliases_input = 1}};
}

std::vector<OutputSpec> Fill::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {0});
  return {{.spec = spec}};
}

}  // namespace maxtext
