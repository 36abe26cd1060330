#include "ops/engine.h"

#include <algorithm>

#include "base/error.h"

namespace maxtext {
namespace {

std::vector<TensorSpec> specs_of(const Op& op, std::span<const Tensor> inputs) {
  std::vector<TensorSpec> specs;
  specs.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) fail("{}: input {} is undefined", op_name(op), i);
    specs.push_back(inputs[i].spec());
  }
  return specs;
}

Tensor aliased(const Op& op, const OutputSpec& output, std::span<const Tensor> inputs) {
  const Tensor& input = inputs[static_cast<std::size_t>(output.aliases_input)];
  if (!output.view && input.storage()->read_only()) {
    fail("{}: input {} would be overwritten, but its memory is borrowed", op_name(op), output.aliases_input);
  }
  return input.view(output.first_element, output.spec.shape);
}

}  // namespace

std::vector<Tensor> Engine::apply(const Op& op, std::span<const Tensor> inputs) {
  const std::vector<TensorSpec> specs = specs_of(op, inputs);
  const std::vector<OutputSpec> inferred = infer(op, specs);
  flops_ += maxtext::flops(op, specs);
  if (const auto* gather = std::get_if<AllGather>(&op); gather != nullptr && gather->group_size > 1) {
    std::vector<Tensor> views = gather_views(*gather, inputs);
    if (!views.empty()) return views;
  }
  std::vector<Tensor> outputs;
  outputs.reserve(inferred.size());
  for (const OutputSpec& output : inferred) {
    outputs.push_back(output.aliases_input >= 0 ? aliased(op, output, inputs) : allocate(output.spec));
  }
  const bool views_only = std::all_of(inferred.begin(), inferred.end(), [](const OutputSpec& o) { return o.view; });
  if (!views_only) execute(op, inputs, outputs);
  return outputs;
}

void Engine::loop(const LoopRange& range, const std::function<void(std::int64_t i)>& body) {
  const std::int64_t count = range.begin < range.end ? (range.end - 1 - range.begin) / range.step + 1 : 0;
  for (std::int64_t k = 0; k < count; ++k) body(range.begin + range.step * (range.reverse ? count - 1 - k : k));
}

std::vector<Tensor> Engine::allocate_stack(std::int64_t rows, const TensorSpec& spec) {
  std::vector<Tensor> stack;
  for (std::int64_t row = 0; row < rows; ++row) stack.push_back(allocate(spec));
  return stack;
}

std::vector<Tensor> Engine::allocate_shard_stack(std::int64_t rows, const TensorSpec& spec, AxisSet axes) {
  std::vector<Tensor> stack;
  for (std::int64_t row = 0; row < rows; ++row) stack.push_back(allocate_shard(spec, axes));
  return stack;
}

std::vector<Tensor> Engine::zeros_stack(std::int64_t rows, const TensorSpec& spec) {
  std::vector<Tensor> stack;
  for (std::int64_t row = 0; row < rows; ++row) stack.push_back(apply_one(Fill{.spec = spec, .value = 0}, {}));
  return stack;
}

Tensor Engine::borrow(const TensorSpec& spec, std::span<const std::byte> bytes, std::shared_ptr<const void> /*owner*/) {
  Tensor copy = input(spec, bytes);
  copy.storage()->set_read_only();
  return copy;
}

Tensor Engine::apply_one(const Op& op, std::initializer_list<Tensor> inputs) {
  std::vector<Tensor> outputs = apply(op, inputs);
  if (outputs.size() != 1) fail("{}: has {} outputs where one is expected", op_name(op), outputs.size());
  return std::move(outputs.front());
}

}  // namespace maxtext
