// Embedding lookup and its gradient.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_types.h"

namespace maxtext {

/// (table [V, E], ids int32 [...]) -> [..., E], row ids[i] of the table; float32 for a table as it is stored, in
/// bfloat16 or float16, else in its dtype. Ids outside [0, V) are the loader's error and must not reach an engine.
///
/// With a third input, first_row int32 [], the table is the rows [first_row, first_row + V) of a larger one, which
/// other devices hold the rest of: ids outside of it give rows of zeros, and the sum over the devices is the lookup.
struct Embedding {
  static constexpr std::string_view name = "embedding";
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (dy [..., E], ids int32 [...], destination [V, E]) -> destination[ids[i]] += dy[i], summed in ascending i, so the
/// result does not depend on the number of threads. Unless `accumulate`, destination is set to zero first.
/// With a fourth input, first_row int32 [], destination is the rows [first_row, first_row + V) of a larger table, and
/// dy of ids outside of it goes nowhere.
struct EmbeddingBackward {
  static constexpr std::string_view name = "embedding_backward";
  bool accumulate = true;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

}  // namespace maxtext
