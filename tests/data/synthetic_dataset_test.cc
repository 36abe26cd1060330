#include "data/synthetic_dataset.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace maxtext {
namespace {

SyntheticDataset::Options options(std::uint64_t stream = 0) {
  SyntheticDataset::Options result;
  result.sequence_length = 500;
  result.vocab_size = 50;
  result.seed = 3;
  result.stream = stream;
  return result;
}

TEST(SyntheticDataset, RowsAreAFunctionOfTheirNumber) {
  SyntheticDataset dataset(options());
  SyntheticDataset again(options());
  const auto rows = dataset.read(10, 3).value();
  const auto row = again.read(11, 1).value();
  EXPECT_TRUE(std::equal(row.inputs.begin(), row.inputs.end(), rows.inputs.begin() + 500));
  EXPECT_NE(dataset.read(0, 1), dataset.read(1, 1));
  EXPECT_EQ(total_weights(rows), 3 * 499);
  EXPECT_EQ(rows.document_lengths[0], std::vector<std::int64_t>{500});
  EXPECT_EQ(dataset.row_count(), std::nullopt);
}

TEST(SyntheticDataset, ABigramModelOfOneStreamReachesTheEntropyOnAnother) {
  SyntheticDataset dataset(options(0));
  const auto train = dataset.read(0, 400).value();
  std::map<std::int32_t, std::map<std::int32_t, double>> counts;
  for (std::size_t i = 0; i < train.inputs.size(); ++i) {
    if (train.weights[i] != 0) ++counts[train.inputs[i]][train.targets[i]];
  }
  SyntheticDataset held_out(options(1));
  const auto eval = held_out.read(0, 400).value();
  EXPECT_NE(eval.inputs, train.inputs);
  double loss = 0;
  for (std::size_t i = 0; i < eval.inputs.size(); ++i) {
    if (eval.weights[i] == 0) continue;
    auto& row = counts[eval.inputs[i]];
    double total = 50;
    for (const auto& [token, count] : row) total += count;
    loss -= std::log((row[eval.targets[i]] + 1) / total);
  }
  EXPECT_NEAR(loss / total_weights(eval), SyntheticDataset::entropy(50), 0.02);
  EXPECT_LT(SyntheticDataset::entropy(50), 0.9);
}

TEST(SyntheticDataset, EndsWhenItHasAnEnd) {
  auto limited = options();
  limited.rows = 5;
  SyntheticDataset dataset(limited);
  EXPECT_TRUE(dataset.read(0, 5).has_value());
  EXPECT_FALSE(dataset.read(1, 5).has_value());
}

}  // namespace
}  // namespace maxtext
