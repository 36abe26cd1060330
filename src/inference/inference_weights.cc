#include "inference/inference_weights.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "checkpoint/slice_values.h"
#include "tensor/half.h"

namespace maxtext {
namespace {

Tensor converted(Engine& engine, const ParameterInfo& parameter, const ParameterSlice& slice,
                 const WeightSource& source) {
  const TensorSpec spec{slice.shape, DType::float32};
  const std::vector<float> values =
      read_slice_as_float(source, parameter, slice, {.first = 0, .count = spec.elements()});
  return engine.input(spec, std::as_bytes(std::span(values)));
}

/// The slice's columns as they are stored: a slice of columns does not lie in one piece.
Tensor copied_columns(Engine& engine, const ParameterInfo& parameter, const ParameterSlice& slice, DType dtype,
                      const std::byte* stored) {
  const auto size = static_cast<std::size_t>(dtype_size(dtype));
  const TensorSpec spec{slice.shape, dtype};
  std::vector<std::byte> bytes(static_cast<std::size_t>(spec.bytes()));
  for (const ElementRun& run : element_runs(parameter, slice, 0, spec.elements())) {
    std::memcpy(bytes.data() + static_cast<std::size_t>(run.slice_first) * size,
                stored + static_cast<std::size_t>(run.whole_first) * size, static_cast<std::size_t>(run.count) * size);
  }
  return engine.input(spec, bytes);
}

Tensor load(Engine& engine, const ParameterInfo& parameter, const ParameterSlice& slice, const WeightSource& source) {
  const TensorSpec stored = source.spec(parameter.name);
  if (stored.shape != parameter.shape) {
    fail("tensor '{}': expected the shape {}, found {}", parameter.name, to_string(parameter.shape),
         to_string(stored.shape));
  }
  const std::shared_ptr<const std::byte> bytes = source.mapped(parameter.name);
  if (bytes == nullptr) return converted(engine, parameter, slice, source);
  if (slice.dimension > 0 && slice.shape != parameter.shape) {
    return copied_columns(engine, parameter, slice, stored.dtype, bytes.get());
  }
  const TensorSpec spec{slice.shape, stored.dtype};
  const std::int64_t row_bytes = slice.shape.empty() ? 0 : spec.bytes() / std::max<std::int64_t>(slice.shape[0], 1);
  return engine.borrow(spec, {bytes.get() + slice.begin * row_bytes, static_cast<std::size_t>(spec.bytes())}, bytes);
}

[[noreturn]] void fail_gradients() { fail("generation has no gradients"); }

}  // namespace

InferenceWeights::InferenceWeights(Engine& engine, const ModelShape& shape, const WeightSource& source)
    : tied_(shape.tie_word_embeddings) {
  for (const ParameterGroup& group : model_layout(shape, engine.mesh(), engine.device()).groups) {
    std::vector<Tensor>& tensors = groups_.emplace_back();
    for (std::size_t k = 0; k < group.parameters.size(); ++k) {
      tensors.push_back(load(engine, group.parameters[k], group.slices[k], source));
    }
  }
}

InferenceWeights::InferenceWeights(Engine& engine, const ModelShape& shape, std::uint64_t seed, DType dtype)
    : tied_(shape.tie_word_embeddings) {
  for (const ParameterGroup& group : model_layout(shape, engine.mesh(), engine.device()).groups) {
    std::vector<Tensor>& tensors = groups_.emplace_back();
    for (std::size_t k = 0; k < group.parameters.size(); ++k) {
      const TensorSpec spec{group.slices[k].shape, dtype};
      std::vector<std::byte> bytes;
      if (engine.has_data()) {
        bytes.resize(static_cast<std::size_t>(spec.bytes()));
        convert_from_float(initial_values(group, k, {.first = 0, .count = spec.elements()}, seed), dtype, bytes);
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
