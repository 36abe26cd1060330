// Runs that stop and go on: by their end, by signals, by kill -9, and on another mesh.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <numeric>

#include "checkpoint/checkpoint.h"
#include "end_to_end/training_runs.h"

namespace maxtext::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class Resume : public TrainingRuns {
 protected:
  void expect_every_step_once(const std::string& run, int count) const {
    std::vector<int> expected(static_cast<std::size_t>(count));
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(steps(run), expected);
  }
  void expect_same_run(const std::string& run, const std::string& reference, int count) const {
    expect_every_step_once(run, count);
    EXPECT_EQ(numbers(metrics(run)), numbers(metrics(reference)));
    EXPECT_TRUE(same_checkpoint(checkpoint(run, count), checkpoint(reference, count)));
  }
};

TEST_F(Resume, GoesOnBitForBit) {
  for (const std::string mesh : {"ici_context_parallelism=2", "ici_context_parallelism=1"}) {
    train("whole" + mesh, "steps=12 " + mesh);
    train("parts" + mesh, "steps=5 " + mesh);
    const ProgramResult second = train("parts" + mesh, "steps=12 " + mesh);
    EXPECT_THAT(lines_with(second.output, "resumed from"), SizeIs(1));
    expect_same_run("parts" + mesh, "whole" + mesh, 12);
  }
}

TEST_F(Resume, IncludesMicroBatchesAndSgd) {
  train("whole", "steps=8 global_batch_size=4 gradient_accumulation_steps=2 ici_context_parallelism=2");
  train("parts", "steps=3 global_batch_size=4 gradient_accumulation_steps=2 ici_context_parallelism=2");
  train("parts", "steps=8 global_batch_size=4 gradient_accumulation_steps=2 ici_context_parallelism=2");
  expect_same_run("parts", "whole", 8);
  train("sgd", "steps=8 opt_type=sgd");
  train("sgd-parts", "steps=3 opt_type=sgd");
  train("sgd-parts", "steps=8 opt_type=sgd");
  EXPECT_EQ(numbers(metrics("sgd-parts")), numbers(metrics("sgd")));
}

TEST_F(Resume, AfterKillsAtAnyTime) {
  const std::string settings =
      "learning_rate_schedule_steps=120 ici_context_parallelism=2 checkpoint_period=3 "
      "max_num_checkpoints_to_keep=2 steps=120";
  train("whole", settings);
  // Each attempt dies a little later than the one before, somewhere between two steps, in a step, or in a save.
  int kills = 0;
  for (int step = 2; step < 110; step += 13) {
    Program program(command("killed", settings));
    if (!program.wait_for_output("completed step: " + std::to_string(step) + ",")) break;
    program.signal(SIGKILL);
    if (program.wait().exit_code == 128 + SIGKILL) ++kills;
    const auto complete = complete_steps(path("killed"));
    ASSERT_LE(complete.size(), 3U) << "old checkpoints are removed";
  }
  EXPECT_GE(kills, 4);
  train("killed", settings);
  expect_same_run("killed", "whole", 120);
}

TEST_F(Resume, AfterSignals) {
  const std::string settings = "steps=4000 learning_rate_schedule_steps=4000 ici_context_parallelism=2";
  for (const auto& [name, number] : {std::pair{"SIGTERM", SIGTERM}, std::pair{"SIGINT", SIGINT}}) {
    Program program(command("stopped", settings));
    ASSERT_TRUE(program.wait_for_output("completed step: "));
    program.signal(number);
    const ProgramResult result = program.wait();
    EXPECT_EQ(result.exit_code, 0) << result.output << result.error;
    const auto end = lines_with(result.output, std::string("stopped by ") + name + " after");
    ASSERT_THAT(end, SizeIs(1));
    EXPECT_THAT(end[0], HasSubstr("the same command resumes"));
    const auto completed = steps("stopped").size();
    EXPECT_LT(completed, 4000U);
    expect_every_step_once("stopped", static_cast<int>(completed));
    EXPECT_EQ(complete_steps(path("stopped")).back(), static_cast<std::int64_t>(completed));
  }
  // The two parts are what one run would have been.
  const auto completed = static_cast<int>(steps("stopped").size());
  train("whole", settings + " steps=" + std::to_string(completed));
  expect_same_run("stopped", "whole", completed);
}

TEST_F(Resume, ASignalWithoutCheckpointsPromisesNothing) {
  Program program(command("run", "steps=100000 enable_checkpointing=false"));
  ASSERT_TRUE(program.wait_for_output("completed step: "));
  program.signal(SIGTERM);
  const ProgramResult result = program.wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, HasSubstr("nothing was saved"));
}

TEST_F(Resume, OnAnyOtherMesh) {
  train("whole", "steps=5");
  train("moved", "steps=4 ici_context_parallelism=2");
  const std::vector<std::string> meshes = {"ici_fsdp_parallelism=2", "ici_context_parallelism=4",
                                           "ici_context_parallelism=2 ici_data_parallelism=2",
                                           "ici_tensor_parallelism=2 ici_context_parallelism=2", ""};
  int number = 0;
  for (const std::string& mesh : meshes) {
    // That what is restored is bitwise what was saved is shown by library_test.cc.
    const std::string run = "mesh" + std::to_string(number++);
    train(run, "steps=5 load_full_state_path=" + checkpoint("moved", 4).string() + " " + mesh);
    ASSERT_EQ(steps(run), std::vector<int>{4}) << mesh;
    EXPECT_NEAR(losses(run)[0], losses("whole")[4], 1e-5 * losses("whole")[4]) << mesh;
    EXPECT_EQ(metrics(run)[0].at("total_weights"), metrics("whole")[4].at("total_weights")) << mesh;
  }
}

TEST_F(Resume, NotesWhatMakesRowsOtherOnes) {
  train("run", "steps=2");
  const ProgramResult result = train("run", "steps=3 max_target_length=32");
  EXPECT_THAT(result.output, HasSubstr("max_target_length was 64 in the checkpoint and is 32 now"));
}

TEST_F(Resume, NotesThatTheDataHaveChangedUnderTheSameCommand) {
  train("run", "steps=2");
  // Written anew with the same contents they are the same data.
  const auto file = path("train.jsonl");
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::hours(1));
  EXPECT_THAT(lines_with(train("run", "steps=3").output, "note: "), SizeIs(0));
  std::ofstream(file, std::ios::app) << "{\"text\": \"and more\"}\n";
  const auto notes = lines_with(train("run", "steps=4").output, "note: ");
  ASSERT_THAT(notes, SizeIs(1));
  for (const char* part :
       {"the training data was 60 documents", "is 61 documents", "at row 6 of other rows", "load_parameters_path="}) {
    EXPECT_THAT(notes[0], HasSubstr(part));
  }
  EXPECT_THAT(lines_with(train("run", "steps=5").output, "note: "), SizeIs(0)) << "from then on they are the run's";
}

TEST_F(Resume, ClosesWhatItStartedFrom) {
  train("run", "steps=2 ici_context_parallelism=2");
  const std::string from = checkpoint("run", 2).string();
  for (const std::string key : {"load_full_state_path", "load_parameters_path"}) {
    Program program(command("from-" + key, "steps=1000000 ici_context_parallelism=2 " + key + "=" + from));
    ASSERT_TRUE(program.wait_for_output("completed step: 4,"));
    std::ifstream maps("/proc/" + std::to_string(program.pid()) + "/maps");
    const std::string mapped{std::istreambuf_iterator<char>(maps), {}};
    EXPECT_THAT(mapped, HasSubstr("tokens.bin")) << "the data stay mapped";
    EXPECT_THAT(mapped, ::testing::Not(HasSubstr(from)));
    program.signal(SIGKILL);
    program.wait();
  }
}

TEST_F(Resume, ABranchLeavesTheMetricsOfItsOriginAlone) {
  train("trunk", "steps=4");
  const std::string lines = read_file(metrics_path("trunk"));
  train("branch", "steps=6 load_full_state_path=" + checkpoint("trunk", 4).string() +
                      " metrics_file=" + metrics_path("trunk").string());
  EXPECT_EQ(read_file(metrics_path("trunk").string() + ".old-1"), lines);
  EXPECT_EQ(steps("trunk"), (std::vector<int>{4, 5})) << "those of the branch";
  // The branch itself is resumed as any run.
  train("branch", "steps=7 metrics_file=" + metrics_path("trunk").string());
  EXPECT_EQ(steps("trunk"), (std::vector<int>{4, 5, 6}));
}

}  // namespace
}  // namespace maxtext::testing
