// Optimizer updates on flat fp32 shards, formulas as optax and MaxText compute them.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_types.h"

namespace maxtext {

/// (sums_of_squares float64 [n], already reduced over all devices) -> (clip float32 [2], gradient_norm float32 []).
/// norm = sqrt(Σ); clip = (factor, apply): factor = threshold / norm where norm >= threshold > 0, else 1; apply = 0
/// where the norm is not finite, else 1, and then the update leaves everything as it was.
struct ClipFactor {
  static constexpr std::string_view name = "clip_factor";
  double threshold = 0;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (parameter [n], gradient [n], m [n], v [n], schedule float32 [3], clip float32 [2]) -> (parameter, m, v) in place.
/// schedule = (learning rate, 1 − b1^t, 1 − b2^t). With g = gradient · factor:
///   m = b1·m + (1−b1)·g;  v = b2·v + (1−b2)·g²
///   parameter −= lr · ((m/(1−b1^t)) / (sqrt(v/(1−b2^t) + epsilon_root) + epsilon) + weight_decay · parameter)
struct AdamW {
  static constexpr std::string_view name = "adamw";
  double b1 = 0.9;
  double b2 = 0.95;
  double epsilon = 1e-8;
  double epsilon_root = 0;
  double weight_decay = 0.1;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (parameter [n], gradient [n], schedule float32 [3], clip float32 [2]) -> parameter − lr · gradient · factor.
struct Sgd {
  static constexpr std::string_view name = "sgd";
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

}  // namespace maxtext
