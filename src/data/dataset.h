// A dataset is an endless or finite list of rows. Row r is a pure function of the dataset's options and r, so the whole
// state of the input is one number, the same on every mesh.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "data/row_batch.h"

namespace maxtext {

/// Used by one thread at a time. What a checkpoint saves is the number of the next row (its cursor).
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t sequence_length() const = 0;

  /// Rows first_row .. first_row + rows - 1, counted over all epochs; nothing when the data ends before the last of
  /// them. Rows hold at least one token each. Throws Error for corrupt data, naming file and place.
  virtual std::optional<RowBatch> read(std::int64_t first_row, std::int64_t rows) = 0;

  /// Number of rows over all epochs, or nothing when there is no end. May have to pack all of the data to tell.
  virtual std::optional<std::int64_t> row_count() = 0;

  /// About row_count(), in no time: within the few percent that packing leaves empty. Nothing when there is no end.
  virtual std::optional<std::int64_t> rows_about() const { return std::nullopt; }

  /// What the rows are made from, in words, for a person to compare and a checkpoint to keep: counts and a hash of the
  /// contents, wherever the files lie and whenever they were written. The hash samples large data
  /// (data/sampled_hash.h). Empty when the dataset's options say all.
  virtual std::string fingerprint() const { return {}; }
};

/// The next rows of an evaluation: as many as are left, filled up with rows of padding; nothing at the end.
std::optional<RowBatch> read_padded(Dataset& dataset, std::int64_t first_row, std::int64_t rows);

}  // namespace maxtext
