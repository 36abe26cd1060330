// The deal that looks into the rows: chunks of equal size, equally many per device, so that the visible (query, key)
// pairs of every device are as equal as can be.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "context/reorder.h"

namespace maxtext {

/// Deals the chunks of one row by largest area first: each goes to the device with the least load that has room. Then
/// chunks of the most loaded device are swapped against others of the same size as long as that lowers the maximum.
/// `area` [chunks] is the work of each chunk; `load` [devices] is what earlier rows gave each device, and is updated:
/// so the rows of a batch even each other out. Longest-processing-time-first scheduling with a cardinality constraint.
/// Costs O(chunks · (devices + log chunks)) and a bounded number of swaps.
Deal deal_balanced(const ChunkGrid& grid, std::span<const double> area, std::span<double> load);

/// The chunk sizes worth trying for `slots` per device, coarsest first: 16, 32 and 64 chunks per device, as multiples
/// of 64 tokens (of 16 below 1024 slots, where a kernel tile of 64 rows is 16 positions × 4 heads; of 1 below 256).
/// Coarse chunks keep runs of neighbouring tokens long, fine ones balance better. Never more than max(1, slots / 16).
std::vector<std::int64_t> balanced_chunk_sizes(std::int64_t slots);

/// max / mean, 1 when nothing is loaded.
double max_over_mean(std::span<const double> load);

}  // namespace maxtext
