#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string>

#include "mesh/mpi_transport.h"

namespace maxtext {
namespace {

/// No launcher's variables during a test, and none left behind.
class Launcher : public ::testing::Test {
 protected:
  Launcher() { clear(); }
  ~Launcher() override { clear(); }

 private:
  static void clear() {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS",
                             "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID"}) {
      unsetenv(name);
    }
  }
};

TEST_F(Launcher, None) {
  EXPECT_FALSE(launched_by_mpi());
  EXPECT_EQ(launched_process_count(), 1);
}

TEST_F(Launcher, MpirunEvenWithOneProcess) {
  setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  EXPECT_TRUE(launched_by_mpi());
  EXPECT_EQ(launched_process_count(), 1);
}

TEST_F(Launcher, Pmi) {
  setenv("PMI_SIZE", "12", 1);
  EXPECT_TRUE(launched_by_mpi());
  EXPECT_EQ(launched_process_count(), 12);
}

TEST_F(Launcher, SlurmStepsOfSeveralTasksOnly) {
  setenv("SLURM_STEP_NUM_TASKS", "1", 1);
  EXPECT_FALSE(launched_by_mpi()) << "an interactive shell";
  setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  EXPECT_TRUE(launched_by_mpi());
  EXPECT_EQ(launched_process_count(), 4);
}

TEST_F(Launcher, EachSaysWhichProcessThisIs) {
  EXPECT_EQ(launched_process_index(), 0);
  setenv("SLURM_PROCID", "3", 1);
  EXPECT_EQ(launched_process_index(), 0) << "an interactive shell";
  setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  EXPECT_EQ(launched_process_index(), 3);
  setenv("PMI_RANK", "2", 1);
  EXPECT_EQ(launched_process_index(), 2);
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  EXPECT_EQ(launched_process_index(), 0);
}

TEST_F(Launcher, OthersSpeakLater) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [] {
    const auto begin = Clock::now();
    let_first_process_speak();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  EXPECT_LT(seconds(), 0.5);
  setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  EXPECT_GE(seconds(), 0.9);
}

TEST_F(Launcher, NonsenseIsNoLauncher) {
  setenv("PMI_SIZE", "many", 1);
  EXPECT_FALSE(launched_by_mpi());
}

}  // namespace
}  // namespace maxtext
