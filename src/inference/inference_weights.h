// A model's weights for generation: read from mapped files where they lie, in the dtype in which they are stored.
#pragma once

#include <string>
#include <vector>

#include "autodiff/repeat.h"
#include "checkpoint/weight_source.h"
#include "config/model_shape.h"
#include "model/layout.h"
#include "ops/engine.h"

namespace maxtext {

/// All parameters of a model on one device, group by group as model_layout orders them.
class InferenceWeights {
 public:
  /// Every parameter is borrowed from the source's mapped file; one that is stored in parts, or has no mapping, is
  /// copied. Throws Error naming the source's tensor that is missing or has another shape (expected, found). A tied
  /// model's file may hold the head, too: it is left unread.
  InferenceWeights(Engine& engine, const ModelShape& shape, const WeightSource& source);

  /// Random weights as training would begin with, rounded to `dtype` (float32, bfloat16, float16).
  InferenceWeights(Engine& engine, const ModelShape& shape, std::uint64_t seed, DType dtype = DType::float32);

  const std::vector<Tensor>& group(std::size_t index) const { return groups_[index]; }
  const Tensor& embedding() const { return groups_.front().front(); }
  const Tensor& final_norm() const { return groups_.back().front(); }
  /// The output projection: the embedding where they are tied.
  const Tensor& head() const { return tied_ ? embedding() : groups_.back().back(); }

  /// Of all parameters, as they are stored.
  std::int64_t bytes() const;
  /// That a decode step reads: all but the embedding table, of which it takes one row (unless it is the head, too).
  std::int64_t bytes_per_step() const;

 private:
  bool tied_;
  std::vector<std::vector<Tensor>> groups_;
};

/// The layers' parameters for `repeat`: nothing travels, nothing is released.
class InferenceParameterSource final : public ParameterSource {
 public:
  explicit InferenceParameterSource(const InferenceWeights& weights) : weights_(weights) {}
  void prefetch(int /*iteration*/) override {}
  std::vector<Tensor> acquire(int iteration) override {
    return weights_.group(static_cast<std::size_t>(iteration) + 1);
  }
  void release(int /*iteration*/) override {}
  /// Throw Error: generation has no gradients.
  std::vector<GradientSlot*> gradient_slots(int iteration) override;
  void begin_gradients(int iteration) override;
  void gradients_ready(int iteration) override;

 private:
  const InferenceWeights& weights_;
};

}  // namespace maxtext
