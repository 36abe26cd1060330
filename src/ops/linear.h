// Products with a weight stored as Hugging Face stores it: [out, in].
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_types.h"

namespace maxtext {

/// (x [..., I], weight [O, I]) -> x · weightᵀ [..., O] in the dtype of x; a third input, bias [O], is added to every
/// row. With float32 x the weight may be as it is stored, bfloat16 or float16, and the bias in either dtype: they are
/// widened exactly, and products and sums are float32; x is not rounded. A row's result depends on that row only, bit
/// for bit, whatever the number of rows or threads. An engine made for decoding (CpuEngineOptions::fast_few_rows) has
/// two ways to multiply, which round differently: one for 1 to 16 rows, one for more. There the law holds among calls
/// of 1 to 16 rows, and among calls of more. With `wide_result` y is in the accumulation dtype, not rounded: the logits
/// of bfloat16 hidden states.
struct Linear {
  static constexpr std::string_view name = "linear";
  bool wide_result = false;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
  double flops(InputSpecs inputs) const;
};

/// (dy [..., O], weight [O, I]) -> dy · weight [..., I]; with a third input, destination [..., I], the product is
/// added to it.
struct LinearBackwardInput {
  static constexpr std::string_view name = "linear_backward_input";
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
  double flops(InputSpecs inputs) const;
};

/// (dy [..., O], x [..., I], destination [O, I]) -> dyᵀ · x, added to destination when `accumulate`, else stored.
struct LinearBackwardWeight {
  static constexpr std::string_view name = "linear_backward_weight";
  bool accumulate = true;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
  double flops(InputSpecs inputs) const;
};

/// (dy [..., O], destination [O]) -> sum of dy over its rows, added to or stored in destination. The rows are summed
/// in blocks fixed by the shape.
struct BiasBackward {
  static constexpr std::string_view name = "bias_backward";
  bool accumulate = true;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

}  // namespace maxtext
