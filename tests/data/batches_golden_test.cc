#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/batches_dataset.h"
#include "tensor/safetensors.h"
#include "testing/fixtures.h"

namespace maxtext {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

TEST(BatchesGolden, RowsAreMaxTextsInEveryArray) {
  for (const auto& path : testing::find_fixtures("maxtext/train_*/batches.safetensors")) {
    SCOPED_TRACE(path.string());
    BatchesDataset dataset({path}, {128, 256, 1});
    EXPECT_EQ(dataset.row_count(), 80);
    const SafetensorsFile file(path);
    const auto batch = dataset.read(0, 80).value();
    const auto inputs = read_as_int64(file, "inputs");
    const auto targets = read_as_int64(file, "targets");
    const auto positions = read_as_int64(file, "inputs_position");
    const auto segments = read_as_int64(file, "inputs_segmentation");
    const auto target_segments = read_as_int64(file, "targets_segmentation");
    ASSERT_EQ(inputs.size(), batch.inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      ASSERT_EQ(batch.segment_ids[i], segments[i]) << i;
      ASSERT_EQ(batch.weights[i], target_segments[i] != 0 ? 1.0F : 0.0F) << i;
      if (segments[i] == 0) continue;
      ASSERT_EQ(batch.inputs[i], inputs[i]) << i;
      ASSERT_EQ(batch.position_ids[i], positions[i]) << i;
      ASSERT_TRUE(target_segments[i] == 0 || batch.targets[i] == targets[i]) << i;
    }
  }
}

TEST(BatchesGolden, TotalWeightsOfEveryStepAreMaxTexts) {
  for (const auto& path : testing::find_fixtures("maxtext/train_*/batches.safetensors")) {
    SCOPED_TRACE(path.string());
    const auto metrics = read_json(path.parent_path() / "metrics.json");
    BatchesDataset dataset({path}, {128, 256, 1});
    int steps = 0;
    for (const auto& expected : metrics.at("total_weights")) {
      EXPECT_EQ(total_weights(dataset.read(4 * steps, 4).value()), expected.get<double>()) << steps;
      ++steps;
    }
    EXPECT_EQ(steps, 20);
    EXPECT_FALSE(dataset.read(4 * steps, 4).has_value()) << "a clear end";
  }
}

TEST(BatchesGolden, EpochsRepeatTheFile) {
  const auto path = testing::find_fixtures("maxtext/train_packed/batches.safetensors").at(0);
  BatchesDataset dataset({path}, {128, 256, 2});
  EXPECT_EQ(dataset.row_count(), 160);
  const auto across = dataset.read(78, 4).value();
  const auto start = dataset.read(0, 2).value();
  EXPECT_TRUE(std::equal(start.inputs.begin(), start.inputs.end(), across.inputs.begin() + 2 * 128));
  EXPECT_FALSE(dataset.read(158, 3).has_value());
}

TEST(BatchesGolden, MismatchesNameTheKeyOrTheRow) {
  const auto path = testing::find_fixtures("maxtext/train_packed/batches.safetensors").at(0);
  EXPECT_THAT(
      [&] {
        BatchesDataset({path}, {64, 256, 1});
      },
      ThrowsMessage<ConfigError>(HasSubstr("max_target_length=64: the rows of")));
  BatchesDataset dataset({path}, {128, 100, 1});
  EXPECT_THAT([&] { dataset.read(0, 4); }, ThrowsMessage<Error>(HasSubstr("is outside the vocabulary of 100")));
}

class BatchesFileTest : public ::testing::Test {
 protected:
  /// One row of four tokens, in which `name` has the values `values`.
  static void read_row(const std::string& name, const std::vector<std::int32_t>& values) {
    const auto path = std::filesystem::path(::testing::TempDir()) / "row.safetensors";
    const std::vector<std::int32_t> inputs = {1, 2, 3, 4};
    const std::vector<std::int32_t> positions = {0, 1, 0, 1};
    const std::vector<std::int32_t> segments = {1, 1, 2, 2};
    std::vector<NamedBytes> tensors;
    const auto add = [&](const std::string& tensor, const std::vector<std::int32_t>& row) {
      tensors.push_back({tensor, {{1, 1, 4}, DType::int32}, std::as_bytes(std::span(tensor == name ? values : row))});
    };
    add("inputs", inputs);
    add("targets", inputs);
    add("inputs_position", positions);
    add("inputs_segmentation", segments);
    add("targets_segmentation", segments);
    write_safetensors(path, tensors);
    BatchesDataset({path}, {4, 5, 1}).read(0, 1);
    std::filesystem::remove(path);
  }
};

TEST_F(BatchesFileTest, RowsThatCannotBeTrainedOnAreErrors) {
  EXPECT_NO_THROW(read_row("", {}));
  EXPECT_THAT([] { read_row("inputs", {1, 9, 3, 4}); }, ThrowsMessage<Error>(HasSubstr("row 0: token 9 at index 1")));
  EXPECT_THAT(
      [] {
        read_row("targets", {1, 2, -1, 4});
      },
      ThrowsMessage<Error>(HasSubstr("row 0: target -1 at index 2")));
  EXPECT_THAT(
      [] {
        read_row("inputs_position", {0, 1, 2, 3});
      },
      ThrowsMessage<Error>(HasSubstr("inputs_position 2 at index 2, expected 0")));
  EXPECT_THAT(
      [] {
        read_row("inputs_segmentation", {1, 2, 1, 2});
      },
      ThrowsMessage<Error>(HasSubstr("row 0: inputs_segmentation:")));
}

}  // namespace
}  // namespace maxtext
