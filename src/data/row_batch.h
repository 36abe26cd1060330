// The rows of one training step in natural token order: before any reordering, sharding or split in micro-batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace maxtext {

/// Every array is row-major [rows, sequence_length]. Slots of padding have id 0, position 0, segment 0 and weight 0.
struct RowBatch {
  std::int64_t rows = 0;
  std::int64_t sequence_length = 0;
  std::vector<std::int32_t> inputs;
  /// targets[t] is the token after inputs[t] in its document.
  std::vector<std::int32_t> targets;
  /// Restart at 0 in each document.
  std::vector<std::int32_t> position_ids;
  /// 1-based number of the document in its row; 0 is padding, at the tail only.
  std::vector<std::int32_t> segment_ids;
  /// Weight of each target in the loss; 0 for the last token of a document.
  std::vector<float> weights;
  /// Per row, the lengths of its documents in order: what a ContextPlan is built from.
  std::vector<std::vector<std::int64_t>> document_lengths;

  bool operator==(const RowBatch&) const = default;
};

/// A batch of padding only, to be filled row by row.
RowBatch padding_batch(std::int64_t rows, std::int64_t sequence_length);

/// Writes `ids`, the tokens of the row's documents one after another, into `row` and derives everything else.
/// Throws Error when the lengths do not add up to the number of ids, or are longer than a row.
void fill_row(RowBatch& batch, std::int64_t row, std::span<const std::int32_t> ids,
              std::vector<std::int64_t> document_lengths);

/// Appends rows of padding up to `rows`: for the last batch of an evaluation, never for training.
void pad_rows(RowBatch& batch, std::int64_t rows);

/// Sum of the weights: the denominator of the loss.
double total_weights(const RowBatch& batch);

}  // namespace maxtext
