#include <gtest/gtest.h>

#include <array>
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
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}) {
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

TEST_F(Launcher, NonsenseIsNoLauncher) {
  setenv("PMI_SIZE", "many", 1);
  EXPECT_FALSE(launched_by_mpi());
}

}  // namespace
}  // namespace maxtext
