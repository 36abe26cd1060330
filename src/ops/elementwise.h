// Elementwise ops.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_types.h"

namespace maxtext {

/// (a, b) of one spec -> a + b. With `in_place` the result takes the memory of a.
struct Add {
  static constexpr std::string_view name = "add";
  bool in_place = false;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (x) -> factor · x.
struct Scale {
  static constexpr std::string_view name = "scale";
  double factor = 1;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (x) -> cap · tanh(x / cap): bounds logits to ±cap (Gemma 2). With `in_place` the result takes the memory of x. It
/// has no derivative of its own: those of attention and cross-entropy contain it.
struct SoftCap {
  static constexpr std::string_view name = "soft_cap";
  double cap = 1;
  bool in_place = false;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (x [..., N], weights float32 [...]) -> the rows of x, but zeros where the weight is 0, whatever lies there (NaN,
/// too).
struct MaskRows {
  static constexpr std::string_view name = "mask_rows";
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (x) -> x in another floating-point dtype, rounded to nearest even.
struct Cast {
  static constexpr std::string_view name = "cast";
  DType dtype = DType::float32;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (x, destination of the same dtype and number of elements) -> destination, which holds the elements of x from then
/// on. How a loop's body hands a value to the next iteration, and how it fills a row of a stack.
struct Assign {
  static constexpr std::string_view name = "assign";
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// () -> a tensor of `spec` filled with `value`.
struct Fill {
  static constexpr std::string_view name = "fill";
  TensorSpec spec;
  double value = 0;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

}  // namespace maxtext
