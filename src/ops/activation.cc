#include "ops/activation.h"

namespace maxtext {

std::vector<OutputSpec> GatedActivation::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {2});
  require_floating(inputs[0].dtype, name, inputs);
  require_shape(inputs[0] == inputs[1], name, inputs, "gate and up must have one shape and dtype");
  return {{.spec = inputs[0]}};
}

std::vector<OutputSpec> GatedActivationBackward::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {3});
  require_floating(inputs[0].dtype, name, inputs);
  require_shape(inputs[0] == inputs[1] && inputs[0] == inputs[2], name, inputs,
                "dy, gate and up must have one shape and dtype");
  return {{.spec = inputs[1], .aliases_input = in_place ? 1 : -1},
          {.spec = inputs[2], .aliases_input = in_place ? 2 : -1}};
}

}  // namespace maxtext
