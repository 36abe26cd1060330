// Rows that were prepared elsewhere, in the form in which MaxText's batches are kept.
#pragma once

#include <filesystem>
#include <vector>

#include "data/dataset.h"
#include "tensor/safetensors.h"

namespace maxtext {

/// Reads `inputs`, `targets`, `inputs_position`, `inputs_segmentation` and `targets_segmentation`, int32 [steps, rows,
/// S] in natural token order. A target has weight 1 where targets_segmentation is not 0. Rows are read in the order of
/// the file, whatever the number of rows per step.
class BatchesDataset final : public Dataset {
 public:
  struct Options {
    std::int64_t sequence_length = 0;
    std::int64_t vocab_size = 0;
    /// Passes over the files; nothing means without end.
    std::optional<std::int64_t> epochs = 1;
  };

  /// Throws Error for files that are not of this form, ConfigError when their rows are not sequence_length long.
  BatchesDataset(const std::vector<std::filesystem::path>& files, const Options& options);

  std::int64_t sequence_length() const override { return options_.sequence_length; }
  /// Throws Error naming file and row for ids outside the vocabulary, for documents that are not contiguous, and for
  /// positions that do not restart at 0 in each document: no other rows can be trained on.
  std::optional<RowBatch> read(std::int64_t first_row, std::int64_t rows) override;
  std::optional<std::int64_t> row_count() override;
  std::optional<std::int64_t> rows_about() const override;
  std::string fingerprint() const override;

 private:
  struct File {
    SafetensorsFile tensors;
    std::int64_t first_row;
  };
  void copy_row(const File& file, std::int64_t row, RowBatch& batch, std::int64_t target) const;

  Options options_;
  std::vector<File> files_;
  std::int64_t rows_ = 0;  // of one epoch
};

}  // namespace maxtext
