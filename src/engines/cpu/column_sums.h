// Sums over rows that do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engines/cpu/cpu_context.h"

namespace maxtext {

/// How `sum_rows` cuts its rows.
struct RowBlocks {
  std::int64_t rows_per_block;
  std::int64_t blocks;
};

/// At most 64 blocks, fixed by the number of rows.
inline RowBlocks row_blocks(std::int64_t rows) {
  constexpr std::int64_t kMostBlocks = 64;
  const std::int64_t rows_per_block = std::max<std::int64_t>(1, (rows + kMostBlocks - 1) / kMostBlocks);
  return {rows_per_block, (rows + rows_per_block - 1) / rows_per_block};
}

/// Adds (`accumulate`) to or stores in destination [columns] the sum over `rows` rows of what add_row(row, partial)
/// adds to `partial` [columns]. The sums of row_blocks(rows) are added in order. Takes blocks · columns of scratch.
template <typename T, typename AddRow>
void sum_rows(CpuContext& context, std::int64_t rows, std::int64_t columns, bool accumulate, T* destination,
              AddRow add_row) {
  const RowBlocks cut = row_blocks(rows);
  const std::int64_t rows_per_block = cut.rows_per_block;
  const std::int64_t blocks = cut.blocks;
  const auto partials = scratch<T>(context, blocks * columns);
#pragma omp parallel for schedule(static)
  for (std::int64_t block = 0; block < blocks; ++block) {
    T* partial = partials.get() + block * columns;
    std::fill_n(partial, columns, T{0});
    const std::int64_t end = std::min(rows, (block + 1) * rows_per_block);
    for (std::int64_t row = block * rows_per_block; row < end; ++row) add_row(row, partial);
  }
#pragma omp parallel for schedule(static)
  for (std::int64_t column = 0; column < columns; ++column) {
    T sum = accumulate ? destination[column] : T{0};
    for (std::int64_t block = 0; block < blocks; ++block) sum += partials.get()[block * columns + column];
    destination[column] = sum;
  }
}

}  // namespace maxtext
