#include "data/synthetic_dataset.h"

#include <cmath>

#include "data/permutation.h"

namespace maxtext {

SyntheticDataset::SyntheticDataset(const Options& options) : options_(options) {
  const Permutation successor(options.vocab_size, mix_keys(options.seed, 0));
  successors_.reserve(static_cast<std::size_t>(options.vocab_size));
  for (std::int64_t id = 0; id < options.vocab_size; ++id) {
    successors_.push_back(static_cast<std::int32_t>(successor(id)));
  }
}

std::vector<std::int32_t> SyntheticDataset::row_tokens(std::int64_t row) const {
  const std::uint64_t key = mix_keys(mix_keys(options_.seed, options_.stream + 1), static_cast<std::uint64_t>(row));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(options_.sequence_length));
  std::int32_t previous = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::uint64_t random = mix_keys(key, i);
    const bool jump = i == 0 || (random & 7) == 0;
    const std::uint64_t uniform = ((random >> 32) * static_cast<std::uint64_t>(options_.vocab_size)) >> 32;
    ids[i] = jump ? static_cast<std::int32_t>(uniform) : successors_[static_cast<std::size_t>(previous)];
    previous = ids[i];
  }
  return ids;
}

std::optional<RowBatch> SyntheticDataset::read(std::int64_t first_row, std::int64_t rows) {
  if (options_.rows && first_row + rows > *options_.rows) return std::nullopt;
  RowBatch batch = padding_batch(rows, options_.sequence_length);
  for (std::int64_t i = 0; i < rows; ++i) fill_row(batch, i, row_tokens(first_row + i), {options_.sequence_length});
  return batch;
}

double SyntheticDataset::entropy(std::int64_t vocab_size) {
  const auto size = static_cast<double>(vocab_size);
  const double other = 1 / (8 * size);
  const double successor = 7.0 / 8 + other;
  return -successor * std::log(successor) - (size - 1) * other * std::log(other);
}

}  // namespace maxtext
