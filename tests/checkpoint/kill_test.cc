// A process that saves in a loop is killed with SIGKILL at arbitrary moments.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "checkpoint/checkpoint.h"
#include "checkpoint/reader.h"
#include "testing/example_state.h"
#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

using testing::ExampleState;

std::int64_t newest_step(const std::filesystem::path& run) {
  const std::vector<std::int64_t> steps = complete_steps(run);
  return steps.empty() ? 0 : steps.back();
}

[[noreturn]] void save_until_killed(const std::filesystem::path& run) {
  SaveOptions options;
  options.run_directory = run;
  options.device_count = 2;
  options.keep = 1;
  for (std::int64_t step = newest_step(run) + 1;; ++step) {
    const ExampleState state(step);
    save_checkpoint(options, state.info(), state.owned_by(2));
  }
}

TEST(Kill, TheNewestCheckpointIsAlwaysWhole) {
  const testing::TemporaryDirectory directory;
  std::int64_t newest = 0;
  // How long a life takes to mean anything is the disk's business: those in which nothing was saved get longer.
  std::chrono::microseconds span(15000);
  for (int life = 0; life < 100 && (life < 15 || newest <= 15); ++life) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_until_killed(directory.path());
    std::this_thread::sleep_for(span + life % 15 * span / 4);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child stopped by itself";
    const std::int64_t step = newest_step(directory.path());
    ASSERT_GE(step, newest) << "a complete checkpoint was lost";
    if (step == newest) span = span * 3 / 2;
    newest = step;
    if (step > 0) {
      const CheckpointReader reader(latest_checkpoint(directory.path()));
      ExampleState(step).expect_equal(reader, 3);
      reader.verify();
    }
  }
  EXPECT_GT(newest, 15) << "too slow to mean anything";
}

}  // namespace
}  // namespace maxtext
