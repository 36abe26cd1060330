#include "data/row_batch.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "context/context_plan.h"

namespace maxtext {

RowBatch padding_batch(std::int64_t rows, std::int64_t sequence_length) {
  RowBatch batch;
  batch.sequence_length = sequence_length;
  pad_rows(batch, rows);
  return batch;
}

void pad_rows(RowBatch& batch, std::int64_t rows) {
  if (rows < batch.rows) fail("cannot pad a batch of {} rows to {}", batch.rows, rows);
  const auto size = static_cast<std::size_t>(rows * batch.sequence_length);
  batch.rows = rows;
  for (auto* array : {&batch.inputs, &batch.targets, &batch.position_ids, &batch.segment_ids}) array->resize(size, 0);
  batch.weights.resize(size, 0.0F);
  batch.document_lengths.resize(static_cast<std::size_t>(rows));
}

void fill_row(RowBatch& batch, std::int64_t row, std::span<const std::int32_t> ids,
              std::vector<std::int64_t> document_lengths) {
  const std::int64_t total = std::accumulate(document_lengths.begin(), document_lengths.end(), std::int64_t{0});
  if (total != std::ssize(ids) || total > batch.sequence_length) {
    fail("a row of {} tokens was given {} ids in documents of {} tokens", batch.sequence_length, ids.size(), total);
  }
  const std::int64_t first = row * batch.sequence_length;
  std::copy(ids.begin(), ids.end(), batch.inputs.begin() + first);
  const auto row_ids =
      std::span(batch.inputs).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(batch.sequence_length));
  const ShiftedTargets shifted = shift_targets(row_ids, document_lengths);
  std::copy(shifted.targets.begin(), shifted.targets.end(), batch.targets.begin() + first);
  std::copy(shifted.weights.begin(), shifted.weights.end(), batch.weights.begin() + first);
  auto position = batch.position_ids.begin() + first;
  auto segment = batch.segment_ids.begin() + first;
  for (std::size_t document = 0; document < document_lengths.size(); ++document) {
    const std::int64_t length = document_lengths[document];
    std::iota(position, position + length, 0);
    std::fill_n(segment, length, static_cast<std::int32_t>(document + 1));
    position += length;
    segment += length;
  }
  batch.document_lengths[static_cast<std::size_t>(row)] = std::move(document_lengths);
}

double total_weights(const RowBatch& batch) { return std::accumulate(batch.weights.begin(), batch.weights.end(), 0.0); }

}  // namespace maxtext
