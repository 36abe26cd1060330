// Packed documents: from segment ids to lengths, and targets that do not cross a boundary.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace maxtext {

/// targets[t] = ids[t + 1] with weight 1; the last token of each document and padding have target 0 and weight 0.
struct ShiftedTargets {
  std::vector<std::int32_t> targets;
  std::vector<float> weights;
};

/// Shifts targets left within documents, in original order, before any permutation or sharding: afterwards every token
/// carries its own target, wherever it goes. Throws Error when the documents have more tokens than `ids`.
ShiftedTargets shift_targets(std::span<const std::int32_t> ids, std::span<const std::int64_t> document_lengths);

/// Document lengths of a row of segment ids (contiguous runs; 0 = padding, allowed only at the tail). Throws Error
/// naming the index where an id returns after another one, padding is followed by a token, or an id is negative.
std::vector<std::int64_t> document_lengths_of(std::span<const std::int32_t> segment_ids);

}  // namespace maxtext
