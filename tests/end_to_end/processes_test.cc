// One process per device under mpirun: the same command, the same numbers, the same checkpoints.
#include <gmock/gmock.h>
#include <signal.h>

#include <charconv>
#include <fstream>

#include "checkpoint/checkpoint.h"
#include "end_to_end/training_runs.h"

namespace maxtext::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class Processes : public TrainingRuns {
 protected:
  ProgramResult launch(int processes, const std::string& run, const std::string& overrides) const {
    ProgramResult result = Program(launched(processes, run, overrides)).wait();
    EXPECT_EQ(result.exit_code, 0) << result.output << result.error;
    return result;
  }
};

/// Processes whose command line mentions `text` and is not mpirun's.
std::vector<pid_t> processes_with(const std::string& text) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    std::ifstream file(entry.path() / "cmdline", std::ios::binary);
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    if (line.find(text) != std::string::npos && line.find("mpirun") == std::string::npos) found.push_back(pid);
  }
  return found;
}

TEST_F(Processes, AreBitForBitThreads) {
  struct Case {
    std::string name;
    int devices;
    std::string mesh;
  };
  for (const Case& test : {Case{"cp2", 2, "ici_context_parallelism=2"}, Case{"cp3", 3, "ici_context_parallelism=3"},
                           Case{"fsdp2cp2", 4, "ici_context_parallelism=2 ici_fsdp_parallelism=2"},
                           Case{"data2cp2", 4, "ici_context_parallelism=2 ici_data_parallelism=2"},
                           Case{"cp2tensor2", 4, "ici_context_parallelism=2 ici_tensor_parallelism=2"}}) {
    const std::string& name = test.name;
    const std::string settings = "steps=6 eval_interval=3 checkpoint_period=2 " + test.mesh;
    const ProgramResult threads = train("threads" + name, settings);
    const ProgramResult processes = launch(test.devices, "processes" + name, settings);
    EXPECT_EQ(numbers(metrics("processes" + name)), numbers(metrics("threads" + name))) << name;
    EXPECT_EQ(lines_with(processes.output, "Completed eval"), lines_with(threads.output, "Completed eval"));
    EXPECT_THAT(lines_with(processes.output, "completed step"), SizeIs(6)) << "one process speaks for all";
    for (const int step : {2, 4, 6}) {
      EXPECT_TRUE(same_checkpoint(checkpoint("processes" + name, step), checkpoint("threads" + name, step))) << name;
    }
  }
}

TEST_F(Processes, AndThreadsContinueEachOther) {
  const std::string mesh = " ici_context_parallelism=2";
  train("whole", "steps=9" + mesh);
  train("mixed", "steps=3" + mesh);
  launch(2, "mixed", "steps=6" + mesh);
  train("mixed", "steps=9" + mesh);
  EXPECT_EQ(numbers(metrics("mixed")), numbers(metrics("whole")));
  EXPECT_TRUE(same_checkpoint(checkpoint("mixed", 9), checkpoint("whole", 9)));
}

TEST_F(Processes, WithoutAMeshTakeTheLaunchersDevices) {
  // The default mesh has ici_fsdp_parallelism=-1.
  launch(2, "launched", "steps=3 enable_checkpointing=false");
  train("threads", "steps=3 enable_checkpointing=false ici_fsdp_parallelism=2");
  EXPECT_EQ(numbers(metrics("launched")), numbers(metrics("threads")));
}

TEST_F(Processes, EndTogetherWhenOneIsKilled) {
  Program program(launched(2, "killed", "steps=1000000 ici_context_parallelism=2 enable_checkpointing=false"));
  ASSERT_TRUE(program.wait_for_output("completed step: 3,"));
  const std::vector<pid_t> pids = processes_with("run_name=killed");
  ASSERT_THAT(pids, SizeIs(2));
  const auto begin = std::chrono::steady_clock::now();
  kill(pids.back(), SIGKILL);
  const ProgramResult result = program.wait(10);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_THAT(result.error, HasSubstr("signal 9"));
  EXPECT_TRUE(processes_with("run_name=killed").empty());
}

TEST_F(Processes, EndTogetherWithAReason) {
  const ProgramResult result =
      Program(launched(2, "nan", "steps=1000 ici_context_parallelism=2 learning_rate=1e30 enable_checkpointing=false"))
          .wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, HasSubstr("at step"));
  EXPECT_THAT(result.error, HasSubstr("first tensor that is not finite: gradient of model."));
  EXPECT_THAT(lines_with(result.error, " failed: "), SizeIs(1)) << "one device speaks for all\n" << result.error;
}

TEST_F(Processes, SaveWhenTheyAreAskedToStop) {
  Program program(launched(2, "stopped", "steps=1000000 ici_context_parallelism=2"));
  ASSERT_TRUE(program.wait_for_output("completed step: 3,"));
  // As Slurm does it: to all processes.
  for (const pid_t pid : processes_with("run_name=stopped")) kill(pid, SIGTERM);
  const ProgramResult result = program.wait();
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.output, HasSubstr("stopped by SIGTERM after"));
  EXPECT_THAT(complete_steps(path("stopped")), SizeIs(1));
}

TEST_F(Processes, SaveWhenTheirLauncherIsAskedToStop) {
  Program program(launched(2, "stopped", "steps=1000000 ici_context_parallelism=2"));
  ASSERT_TRUE(program.wait_for_output("completed step: 3,"));
  program.signal(SIGUSR1);  // to mpirun, which passes it on
  const ProgramResult result = program.wait();
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.output, HasSubstr("stopped by SIGUSR1 after"));
  EXPECT_THAT(complete_steps(path("stopped")), SizeIs(1));
}

TEST_F(Processes, TheFirstDoesWhatIsNoTraining) {
  const ProgramResult result =
      Program({"mpirun", "--oversubscribe", "--allow-run-as-root", "-n", "2", binary(), "config", "steps"}).wait();
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.output, Program({binary(), "config", "steps"}).wait().output);
}

TEST_F(Processes, DataThatTurnOutToBeWrongAreSavedBefore) {
  write_bad_tokens(path("tokens.bin"));
  const ProgramResult result =
      Program(launched(2, "bad",
                       "steps=100 ici_context_parallelism=2 dataset_type=tokens enable_data_shuffling=false "
                       "num_epoch=1 eval_files=[] train_files=" +
                           path("tokens.bin").string()))
          .wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(lines_with(result.error, "stopped after 7 steps, which are saved"), SizeIs(1)) << result.error;
  EXPECT_THAT(complete_steps(path("bad")), ::testing::ElementsAre(7));
}

TEST_F(Processes, MeshAndLauncherHaveToAgree) {
  const ProgramResult result = Program(launched(2, "wrong", "steps=3 ici_context_parallelism=3")).wait();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(lines_with(result.error, "maxtext: error: "), SizeIs(1)) << result.error;
}

}  // namespace
}  // namespace maxtext::testing
