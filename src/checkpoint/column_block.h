// Blocks of columns of a tensor, and ranges of their elements: what tensor parallelism leaves a device of a weight that
// is cut along its last dimension. As ranges of the whole tensor these would be one per row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "tensor/shape.h"

namespace maxtext {

/// Columns [begin, begin + count) of a tensor's last dimension; all of them where count is 0. The block's elements are
/// flattened row by row. A tensor of one dimension is one row, a scalar one element of it.
struct ColumnBlock {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  bool operator==(const ColumnBlock&) const = default;
};

/// Elements [first, first + count) of a flattened block. The functions below take blocks that say how many columns they
/// have, as explicit_block returns them, and but for is_within and to_string ranges within their tensor.
struct BlockRange {
  ColumnBlock block;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// All columns of a tensor.
ColumnBlock all_columns(const Shape& shape);

/// `block` with the number of its columns where it says 0 for all of them.
ColumnBlock explicit_block(const ColumnBlock& block, const Shape& shape);

/// Elements of the block.
std::int64_t element_count(const ColumnBlock& block, const Shape& shape);

/// Whether the block lies within a tensor of this shape, and the range within the block.
bool is_within(const BlockRange& range, const Shape& shape);

/// "the range of 6 elements from 2", of a block "the range of 6 elements from 2 in the block of 3 columns from 5".
std::string to_string(const BlockRange& range, const Shape& shape);

/// What `range` has of `part`, a block within its own: always one range.
BlockRange restricted(const BlockRange& range, const ColumnBlock& part);

/// Where element i of the flattened `part`, a block within `block`, is in the flattened `block`.
inline std::int64_t element_within(const ColumnBlock& block, const ColumnBlock& part, std::int64_t i) {
  return i / part.count * block.count + part.begin - block.begin + i % part.count;
}

/// The elements that are in both ranges, as a range of the columns that are in both blocks; its count is 0 for none.
BlockRange overlap(const BlockRange& a, const BlockRange& b);

/// Calls visit(element of the flattened a, element of the flattened b, count) for the runs of `common`, an overlap of
/// ranges of the blocks a and b, that are contiguous in both: one per row, or a single one where a and b are equal.
template <typename Visit>
void for_each_run(const BlockRange& common, const ColumnBlock& a, const ColumnBlock& b, Visit visit) {
  const std::int64_t end = common.first + common.count;
  const std::int64_t columns = common.block.count;
  for (std::int64_t i = common.first; i < end;) {
    const std::int64_t run_end = a == b ? end : std::min(end, (i / columns + 1) * columns);
    visit(element_within(a, common.block, i), element_within(b, common.block, i), run_end - i);
    i = run_end;
  }
}

}  // namespace maxtext
