// The run directory: one process at a time, found unusable before anything is computed, and left quickly on a signal.
#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>

#include "end_to_end/training_runs.h"

namespace maxtext::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RunDirectory : public TrainingRuns {};

TEST_F(RunDirectory, BelongsToOneProcess) {
  Program first(command("run", "steps=100000 learning_rate_schedule_steps=100000"));
  ASSERT_TRUE(first.wait_for_output("completed step: 1,"));
  const ProgramResult second = run("run", "steps=3");
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.error, HasSubstr("another process is training this run"));
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait().exit_code, 0);
  train("run", "steps=2");  // the lock ended with the process
}

TEST_F(RunDirectory, AMetricsFileBelongsToOneRun) {
  Program first(command("first", "steps=100000"));
  ASSERT_TRUE(first.wait_for_output("completed step: 1,"));
  const ProgramResult second = run("second", "steps=3 metrics_file=" + metrics_path("first").string());
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(lines_with(second.error, "another run is writing to it"), SizeIs(1)) << second.error;
  EXPECT_THAT(lines_with(second.output, "completed step"), IsEmpty());
  first.signal(SIGTERM);
  EXPECT_EQ(first.wait().exit_code, 0);
  EXPECT_EQ(steps("first").size(), lines_with(first.output(), "completed step").size());
}

TEST_F(RunDirectory, ThatCannotBeMadeEndsTheRunAtOnce) {
  const ProgramResult result = run("run", "steps=3 base_output_directory=/proc/nowhere");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(lines_with(result.error, "the run directory cannot be made"), SizeIs(1));
  EXPECT_THAT(lines_with(result.output, "completed step"), IsEmpty());
}

TEST_F(RunDirectory, ASignalDuringAnEvaluationSavesWithoutAnother) {
  // So many evaluation batches that they would take minutes.
  Program program(
      command("run", "steps=1000 eval_interval=2 dataset_type=synthetic eval_steps=-1 train_files=[] eval_files=[]"));
  ASSERT_TRUE(program.wait_for_output("completed step: 3,"));
  program.signal(SIGTERM);
  const ProgramResult result = program.wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(lines_with(result.output, "the same command resumes"), SizeIs(1)) << result.output << result.error;
}

TEST_F(RunDirectory, ASignalDuringTheLastEvaluationDoesNotHideTheEndOfTheData) {
  const ProgramResult whole = train("whole", "steps=1000 num_epoch=1");
  const std::size_t count = lines_with(whole.output, "completed step").size();
  const std::string end = "end of data after " + std::to_string(count) + " steps";
  ASSERT_THAT(lines_with(whole.output, end), SizeIs(1));
  // An evaluation of about a second.
  std::ofstream held_out(path("long.jsonl"));
  for (int i = 0; i < 1500; ++i) held_out << nlohmann::json{{"text", std::string(60, 'a')}} << "\n";
  held_out.close();
  Program program(
      command("run", "steps=1000 num_epoch=1 eval_interval=1000 eval_files=" + path("long.jsonl").string()));
  ASSERT_TRUE(program.wait_for_output("completed step: " + std::to_string(count - 1) + ","));
  program.signal(SIGTERM);
  const ProgramResult result = program.wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(lines_with(result.output, "Completed eval after"), IsEmpty()) << "it came too late for this test";
  EXPECT_THAT(lines_with(result.output, end), SizeIs(1)) << result.output;
  EXPECT_THAT(lines_with(result.output, "stopped by"), IsEmpty());
}

TEST_F(RunDirectory, IncompleteCheckpointsArePassedOverAloud) {
  train("run", "steps=2");
  std::filesystem::copy(checkpoint("run", 2), checkpoint("run", 4), std::filesystem::copy_options::recursive);
  std::filesystem::remove(checkpoint("run", 4) / "COMMITTED");
  const std::string passed = checkpoint("run", 4).string() + " is incomplete (COMMITTED is missing), passed over";
  const ProgramResult resumed = train("run", "steps=3");
  EXPECT_THAT(lines_with(resumed.output, passed), SizeIs(1)) << resumed.output;
  EXPECT_THAT(lines_with(resumed.output, "resumed from"), SizeIs(1));
  for (const std::string key : {"load_parameters_path=", "load_full_state_path="}) {
    std::filesystem::copy(checkpoint("run", 4), checkpoint("run", 5), std::filesystem::copy_options::recursive);
    const ProgramResult other = train(key.substr(0, 9), "steps=4 " + key + path("run").string());
    EXPECT_THAT(lines_with(other.output, "/5 is incomplete (COMMITTED is missing), passed over"), SizeIs(1));
    EXPECT_THAT(lines_with(other.output, "reading " + checkpoint("run", 3).string()), SizeIs(1)) << other.output;
    std::filesystem::remove_all(checkpoint("run", 5));
  }
  for (const int step : {2, 3}) std::filesystem::remove_all(checkpoint("run", step));
  const ProgramResult anew = train("run", "steps=1");
  EXPECT_THAT(lines_with(anew.output, passed), SizeIs(1));
  EXPECT_THAT(lines_with(anew.output, "is complete: the run starts at step 0"), SizeIs(1)) << anew.output;
}

TEST_F(RunDirectory, TheLogBeginsWithWhatIsTrained) {
  const ProgramResult result = train("run", "steps=2 ici_context_parallelism=2");
  const auto lines = lines_of(result.output);
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines[0],
              ::testing::MatchesRegex("[0-9]+ parameters, 2 devices \\(context 2\\), 2 rows and 128 tokens per "
                                      "step, about 0\\.[0-9][0-9] GiB of memory"));
  const ProgramResult again = train("run", "steps=2 ici_context_parallelism=2");
  EXPECT_THAT(lines_with(again.output, "already at step 2 of 2, nothing to do"), SizeIs(1));
}

TEST_F(RunDirectory, DataThatAreShortAndRowsWithoutTargetsAreNoted) {
  const ProgramResult fewer = train("short", "steps=100000 num_epoch=1");
  const auto notes = lines_with(fewer.output, "of the 100000 steps; num_epoch allows more passes");
  ASSERT_THAT(notes, SizeIs(1)) << fewer.output;
  EXPECT_THAT(lines_with(train("long", "steps=2").output, "num_epoch"), IsEmpty());
  const ProgramResult lonely = train("lonely", "steps=3 max_target_length=1");
  EXPECT_THAT(lines_with(lonely.output, "has no targets (total_weights 0)"), SizeIs(1)) << lonely.output;
}

TEST_F(RunDirectory, EndOfDataIsEvaluated) {
  const ProgramResult result = train("run", "steps=1000 num_epoch=1 eval_interval=1000");
  EXPECT_THAT(lines_with(result.output, "end of data"), SizeIs(1));
  EXPECT_THAT(lines_with(result.output, "Completed eval after train step"), SizeIs(1));
}

}  // namespace
}  // namespace maxtext::testing
