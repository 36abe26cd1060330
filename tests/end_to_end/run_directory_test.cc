// The run directory: one process at a time, found unusable before anything is computed, and left quickly on a signal.
#include <gmock/gmock.h>
#include <signal.h>

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

TEST_F(RunDirectory, ThatCannotBeMadeEndsTheRunAtOnce) {
  const ProgramResult result = run("run", "steps=3 base_output_directory=/proc/nowhere");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(lines_with(result.error, "the run directory cannot be made"), SizeIs(1));
  EXPECT_THAT(lines_with(result.output, "completed step"), IsEmpty());
}

TEST_F(RunDirectory, ASignalDuringAnEvaluationSavesWithoutAnother) {
  // So many evaluation batches that they would take minutes.
  Program program(command("run", "steps=1000 eval_interval=2 dataset_type=synthetic eval_steps=-1 train_files=[]"));
  ASSERT_TRUE(program.wait_for_output("completed step: 3,"));
  program.signal(SIGTERM);
  const ProgramResult result = program.wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(lines_with(result.output, "the same command resumes"), SizeIs(1)) << result.output << result.error;
}

TEST_F(RunDirectory, EndOfDataIsEvaluated) {
  const ProgramResult result = train("run", "steps=1000 num_epoch=1 eval_interval=1000");
  EXPECT_THAT(lines_with(result.output, "end of data"), SizeIs(1));
  EXPECT_THAT(lines_with(result.output, "Completed eval after train step"), SizeIs(1));
}

}  // namespace
}  // namespace maxtext::testing
