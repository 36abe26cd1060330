// Reductions to a few numbers, summed in double in blocks fixed by the shape.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_types.h"

namespace maxtext {

/// (x) -> float64 [], the sum of all elements.
struct Sum {
  static constexpr std::string_view name = "sum";
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (x [n], ranges int64 [m, 2]) -> float64 [m]: entry i is Σ x² over [ranges[i][0], ranges[i][1]), 0 where that is
/// empty. Ranges are an input because the parts of parameters that a shard holds differ between ranks.
struct SumOfSquares {
  static constexpr std::string_view name = "sum_of_squares";
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

}  // namespace maxtext
