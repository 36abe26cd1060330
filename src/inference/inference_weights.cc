#include "inference/inference_weights.h"

#include "base/error.h"
#include "tensor/half.h"

namespace maxtext {
namespace {

Tensor copied(Engine& engine, const ParameterInfo& parameter, const WeightSource& source) {
  const TensorSpec spec{parameter.shape, DType::float32};
  std::vector<float> values(static_cast<std::size_t>(spec.elements()));
  source.read_range_as_float(parameter.name, 0, values);
  return engine.input(spec, std::as_bytes(std::span(values)));
}

Tensor load(Engine& engine, const ParameterInfo& parameter, const WeightSource& source) {
  const TensorSpec stored = source.spec(parameter.name);
  if (stored.shape != parameter.shape) {
    fail("tensor '{}': expected the shape {}, found {}", parameter.name, to_string(parameter.shape),
         to_string(stored.shape));
  }
  const std::shared_ptr<const std::byte> bytes = source.mapped(parameter.name);
  if (bytes == nullptr) return copied(engine, parameter, source);
  const auto size = static_cast<std::size_t>(stored.elements() * dtype_size(stored.dtype));
  return engine.borrow(stored, {bytes.get(), size}, bytes);
}

[[noreturn]] void fail_gradients() { fail("generation has no gradients"); }

}  // namespace

InferenceWeights::InferenceWeights(Engine& engine, const ModelShape& shape, const WeightSource& source)
    : tied_(shape.tie_word_embeddings) {
  for (const ParameterGroup& group : model_layout(shape, 1).groups) {
    std::vector<Tensor>& tensors = groups_.emplace_back();
    for (const ParameterInfo& parameter : group.parameters) tensors.push_back(load(engine, parameter, source));
  }
}

InferenceWeights::InferenceWeights(Engine& engine, const ModelShape& shape, std::uint64_t seed, DType dtype)
    : tied_(shape.tie_word_embeddings) {
  for (const ParameterGroup& group : model_layout(shape, 1).groups) {
    std::vector<Tensor>& tensors = groups_.emplace_back();
    for (const ParameterInfo& parameter : group.parameters) {
      const TensorSpec spec{parameter.shape, dtype};
      std::vector<std::byte> bytes;
      if (engine.has_data()) {
        bytes.resize(static_cast<std::size_t>(spec.bytes()));
        convert_from_float(initial_values(parameter, seed, 0, spec.elements()), dtype, bytes);
      }
      tensors.push_back(engine.input(spec, bytes));
    }
  }
}

std::int64_t InferenceWeights::bytes() const {
  std::int64_t total = 0;
  for (const std::vector<Tensor>& group : groups_) {
    for (const Tensor& tensor : group) total += tensor.elements() * dtype_size(tensor.dtype());
  }
  return total;
}

std::int64_t InferenceWeights::bytes_per_step() const {
  if (tied_) return bytes();
  return bytes() - embedding().elements() * dtype_size(embedding().dtype());
}

std::vector<GradientSlot*> InferenceParameterSource::gradient_slots(int /*iteration*/) { fail_gradients(); }
void InferenceParameterSource::begin_gradients(int /*iteration*/) { fail_gradients(); }
void InferenceParameterSource::gradients_ready(int /*iteration*/) { fail_gradients(); }

}  // namespace maxtext
