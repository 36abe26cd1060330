// Rows that need no files and can be learned to a known loss.
#pragma once

#include "data/dataset.h"

namespace maxtext {

/// Each row is one document of a Markov chain over the vocabulary: a token is followed by its fixed successor (a
/// permutation given by the seed) with probability 7/8, else by any token, uniformly. Row r depends on (seed, stream,
/// r) only; the successors on the seed only, so that what is learned on one stream holds on the others.
class SyntheticDataset final : public Dataset {
 public:
  struct Options {
    std::int64_t sequence_length = 0;
    std::int64_t vocab_size = 0;
    std::uint64_t seed = 0;
    std::uint64_t stream = 0;
    /// Nothing means without end.
    std::optional<std::int64_t> rows;
  };

  explicit SyntheticDataset(const Options& options);

  std::int64_t sequence_length() const override { return options_.sequence_length; }
  std::optional<RowBatch> read(std::int64_t first_row, std::int64_t rows) override;
  std::optional<std::int64_t> row_count() override { return options_.rows; }

  /// Entropy of the next token in nats: the loss of a perfect model.
  /// −p·ln p − (V−1)·q·ln q with q = 1/(8V), p = 7/8 + q.
  static double entropy(std::int64_t vocab_size);

 private:
  std::vector<std::int32_t> row_tokens(std::int64_t row) const;

  Options options_;
  std::vector<std::int32_t> successors_;
};

}  // namespace maxtext
