// The optimizer of one device: moments beside its shards, updates in place.
#pragma once

#include <functional>
#include <vector>

#include "model/parameter_shards.h"

namespace maxtext {

enum class OptimizerType { adamw, sgd };

struct OptimizerOptions {
  OptimizerType type = OptimizerType::adamw;
  AdamW adamw;
  /// Global-norm clipping; 0 is off.
  double gradient_clipping_threshold = 1.0;
};

class Optimizer {
 public:
  /// Allocates and zeroes the moments (AdamW: two fp32 tensors as large as the shards; SGD: none).
  Optimizer(ParameterShards& parameters, OptimizerOptions options);

  struct Result {
    Tensor gradient_norm;    ///< float32 [], before clipping
    Tensor sums_of_squares;  ///< float64 [number of parameters], of gradients, over all devices, in layout order
  };

  /// Norm over all parameters of all devices (each logical element once), clipping, update. A norm that is not finite
  /// leaves parameters and moments as they were, bit for bit. `step` counts from 0. Clears the gradients.
  /// `before_update`, if any, is called when gradients are reduced and before the first write to parameters.
  Result update(std::int64_t step, double learning_rate, const std::function<void()>& before_update = {});

  const Tensor& first_moment(std::size_t group) const { return first_moments_[group]; }
  const Tensor& second_moment(std::size_t group) const { return second_moments_[group]; }
  bool has_moments() const { return !first_moments_.empty(); }

 private:
  /// Each group in layout order; the layers in a loop of the engine.
  void for_each_group(const std::function<void(std::size_t group)>& visit) const;
  Tensor sums_of_squares() const;

  ParameterShards& parameters_;
  OptimizerOptions options_;
  std::vector<Tensor> first_moments_;
  std::vector<Tensor> second_moments_;
  /// Per group, where its parameters lie in this device's shard.
  std::vector<Tensor> ranges_;
};

}  // namespace maxtext
