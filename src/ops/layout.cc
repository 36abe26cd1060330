#include "ops/layout.h"

#include <algorithm>
#include <string>

namespace maxtext {

std::vector<OutputSpec> Reshape::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {1});
  require_shape(element_count(shape) == inputs[0].elements(), name, inputs,
                "the new shape " + to_string(shape) + " has another number of elements");
  return {view_of(0, {shape, inputs[0].dtype})};
}

std::vector<OutputSpec> View::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {1});
  require_shape(first_element >= 0 && first_element + element_count(shape) <= inputs[0].elements(), name, inputs,
                to_string(shape) + " from element " + std::to_string(first_element) + " does not lie within the input");
  return {view_of(0, {shape, inputs[0].dtype}, first_element)};
}

std::vector<OutputSpec> Slice::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {1});
  TensorSpec spec = inputs[0];
  require_shape(axis >= 0 && axis < static_cast<int>(spec.shape.size()), name, inputs, "axis does not exist");
  auto& size = spec.shape[static_cast<std::size_t>(axis)];
  require_shape(start >= 0 && length >= 0 && start + length <= size, name, inputs,
                "start " + std::to_string(start) + " + length " + std::to_string(length) + " exceed axis " +
                    std::to_string(axis));
  size = length;
  const auto along = inputs[0].shape.begin() + axis;
  if (std::all_of(inputs[0].shape.begin(), along, [](std::int64_t n) { return n == 1; })) {
    return {view_of(0, spec, start * element_count(Shape(along + 1, inputs[0].shape.end())))};
  }
  return {{.spec = spec}};
}

std::vector<OutputSpec> Concat::infer(InputSpecs inputs) const {
  require_shape(!inputs.empty(), name, inputs, "needs at least one input");
  TensorSpec spec = inputs[0];
  require_shape(axis >= 0 && axis < static_cast<int>(spec.shape.size()), name, inputs, "axis does not exist");
  const auto along = static_cast<std::size_t>(axis);
  for (const TensorSpec& next : inputs.subspan(1)) {
    TensorSpec expected = inputs[0];
    require_shape(next.shape.size() == expected.shape.size(), name, inputs, "inputs must have one rank");
    expected.shape[along] = next.shape[along];
    require_shape(next == expected, name, inputs, "inputs may differ along the axis only");
    spec.shape[along] += next.shape[along];
  }
  return {{.spec = spec}};
}

std::vector<OutputSpec> Transpose::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {1});
  std::vector<int> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  bool complete = sorted.size() == inputs[0].shape.size();
  for (std::size_t i = 0; complete && i < sorted.size(); ++i) complete = sorted[i] == static_cast<int>(i);
  require_shape(complete, name, inputs, "permutation must name every dimension once");
  TensorSpec spec{{}, inputs[0].dtype};
  for (const int from : permutation) spec.shape.push_back(inputs[0].shape[static_cast<std::size_t>(from)]);
  return {{.spec = spec}};
}

std::vector<OutputSpec> Take::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {2});
  require_shape(!inputs[0].shape.empty(), name, inputs, "x must have rows");
  require_shape(inputs[1].shape.size() == 1 && inputs[1].dtype == DType::int32, name, inputs,
                "index must be int32 [M]");
  TensorSpec spec = inputs[0];
  spec.shape[0] = inputs[1].shape[0];
  return {{.spec = spec}};
}

}  // namespace maxtext
