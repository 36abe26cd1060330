// Root-mean-square normalisation (Zhang & Sennrich 2019).
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_types.h"

namespace maxtext {

/// (x [..., N], weight [N]) -> x / sqrt(mean(x²) + epsilon) · (weight + weight_offset) [..., N]. With float32 x the
/// weight may be as it is stored, bfloat16 or float16. weight_offset is 1 in Gemma's (1 + w) norms.
struct RmsNorm {
  static constexpr std::string_view name = "rms_norm";
  double epsilon = 1e-6;
  double weight_offset = 0;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (dy [..., N], x [..., N], weight [N], weight gradient destination [N]) -> (dx [..., N], weight gradient).
/// With r = 1/sqrt(mean(x²)+epsilon), g = dy·(weight + offset): dx = r·(g − x·r²·mean(g·x)); dw = Σ_rows dy·x·r,
/// added to the destination when `accumulate`, summed in row blocks fixed by the shape.
struct RmsNormBackward {
  static constexpr std::string_view name = "rms_norm_backward";
  double epsilon = 1e-6;
  double weight_offset = 0;
  bool accumulate = true;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

}  // namespace maxtext
