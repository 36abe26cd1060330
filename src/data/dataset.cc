#include "data/dataset.h"

#include <algorithm>

namespace maxtext {

std::optional<RowBatch> read_padded(Dataset& dataset, std::int64_t first_row, std::int64_t rows) {
  const auto end = dataset.row_count();
  const std::int64_t left = end ? std::min(rows, *end - first_row) : rows;
  if (left <= 0) return std::nullopt;
  auto batch = dataset.read(first_row, left);
  if (batch) pad_rows(*batch, rows);
  return batch;
}

}  // namespace maxtext
