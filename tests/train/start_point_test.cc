#include "train/start_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "testing/temporary_directory.h"

namespace maxtext::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;

/// The start of a run from a checkpoint of step 7 that says `trainer`.
StartPoint start_from(const std::filesystem::path& run_directory, const nlohmann::json& trainer) {
  CheckpointInfo info;
  info.step = 7;
  info.trainer = trainer;
  SaveOptions options;
  options.run_directory = run_directory;
  const std::vector<float> values = {1, 2};
  const OwnedRange range{std::string(kWeights), "w", {{2}, DType::float32}, 0, 2, std::as_bytes(std::span(values))};
  save_checkpoint(options, info, {{0, {range}}});
  StartPoint start;
  start.checkpoint = std::make_unique<CheckpointReader>(step_directory(run_directory, 7));
  start.cursor = 28;
  return start;
}

TEST(NoteOtherData, NamesWhatItWasAndIsAndWhatToDo) {
  const TemporaryDirectory directory;
  const StartPoint start = start_from(directory.path(), {{kTrainingData, "3 documents"}});
  EXPECT_EQ(note_other_data(start, "3 documents"), std::nullopt);
  EXPECT_THAT(note_other_data(start, "4 documents"),
              Optional(AllOf(HasSubstr("was 3 documents in the checkpoint and is 4 documents now"), HasSubstr("row 28"),
                             HasSubstr("load_parameters_path=" + step_directory(directory.path(), 7).string()))));
}

TEST(NoteOtherData, SaysNothingWhereNothingIsKnown) {
  const TemporaryDirectory directory;
  EXPECT_EQ(note_other_data(start_from(directory.path(), nlohmann::json::object()), "4 documents"), std::nullopt)
      << "a checkpoint of an earlier version";
  EXPECT_EQ(note_other_data(StartPoint(), "4 documents"), std::nullopt) << "no checkpoint";
}

}  // namespace
}  // namespace maxtext::testing
