// Rotary position embedding (Su et al. 2021), half-split convention of Hugging Face.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_types.h"

namespace maxtext {

/// (position_ids int32 [B, T]) -> (cos, sin) float32 [B, T, D/2] of position · inverse_frequencies[i], times
/// attention_factor. Angles and functions are computed in double: float32 angles are 1e-3 off at position 131071.
struct RopeTable {
  static constexpr std::string_view name = "rope_table";
  std::vector<double> inverse_frequencies;
  double attention_factor = 1;
  /// The dtype of the tables; float64 only in fp64 programs.
  DType dtype = DType::float32;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (x [B, T, H, D], cos [B, T, D/2], sin [B, T, D/2]) -> y[i] = x[i]·cos_i − x[i+D/2]·sin_i,
/// y[i+D/2] = x[i+D/2]·cos_i + x[i]·sin_i. `inverse` negates sin: it is the adjoint.
struct Rope {
  static constexpr std::string_view name = "rope";
  bool inverse = false;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

}  // namespace maxtext
