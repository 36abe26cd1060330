#include "ops/collectives.h"

#include <utility>

namespace maxtext {
namespace {

void check_group(std::string_view name, int group_size, InputSpecs inputs) {
  require_shape(!inputs.empty(), name, inputs, "needs at least one input");
  require_shape(group_size >= 1, name, inputs, "group_size must be at least 1");
}

/// Sums travel in one message of one element type.
void check_reducible(std::string_view name, InputSpecs inputs) {
  const DType dtype = inputs[0].dtype;
  require_floating(dtype, name, inputs);
  for (const TensorSpec& spec : inputs) require_shape(spec.dtype == dtype, name, inputs, "inputs must have one dtype");
}

OutputSpec result(int input, int group_size, TensorSpec spec) {
  return group_size == 1 ? view_of(input, spec) : OutputSpec{.spec = spec};
}

}  // namespace

std::vector<OutputSpec> AllGather::infer(InputSpecs inputs) const {
  check_group(name, group_size, inputs);
  std::vector<OutputSpec> outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TensorSpec spec = inputs[i];
    spec.shape.insert(spec.shape.begin(), group_size);
    outputs.push_back(result(static_cast<int>(i), group_size, spec));
  }
  return outputs;
}

std::vector<OutputSpec> ReduceScatter::infer(InputSpecs inputs) const {
  check_group(name, group_size, inputs);
  check_reducible(name, inputs);
  std::vector<OutputSpec> outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TensorSpec spec = inputs[i];
    require_shape(!spec.shape.empty() && spec.shape[0] == group_size, name, inputs,
                  "the first dimension must be the group size");
    spec.shape.erase(spec.shape.begin());
    outputs.push_back(result(static_cast<int>(i), group_size, spec));
  }
  return outputs;
}

std::vector<OutputSpec> AllReduce::infer(InputSpecs inputs) const {
  check_group(name, group_size, inputs);
  check_reducible(name, inputs);
  std::vector<OutputSpec> outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) outputs.push_back(result(static_cast<int>(i), group_size, inputs[i]));
  return outputs;
}

}  // namespace maxtext
