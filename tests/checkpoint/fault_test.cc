// Nothing half-written is ever loadable: each call that a save makes is in turn the one that fails, or the last one
// before a crash.
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/reader.h"
#include "testing/example_state.h"
#include "testing/faulty_file_layer.h"
#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

using testing::Crashed;
using testing::ExampleState;
using testing::Fault;
using testing::FaultyFileLayer;
using testing::TemporaryDirectory;

constexpr int kOwners = 2;

struct Scenario {
  const char* description;
  std::vector<std::int64_t> before;  // saved without faults
  std::int64_t step;                 // saved with the fault
  int keep;
};

class FaultTest : public ::testing::TestWithParam<Fault> {
 protected:
  enum class Outcome { saved, failed, crashed };

  static SaveOptions options(const std::filesystem::path& run, int keep) {
    SaveOptions options;
    options.run_directory = run;
    options.keep = keep;
    options.device_count = kOwners;
    return options;
  }

  static void save(std::int64_t step, const SaveOptions& options) {
    const ExampleState state(step);
    save_checkpoint(options, state.info(), state.owned_by(kOwners));
  }

  static Outcome save_with(const std::shared_ptr<FaultyFileLayer>& layer, std::int64_t step, SaveOptions options) {
    options.files = layer;
    try {
      save(step, options);
    } catch (const Error&) {
      return Outcome::failed;
    } catch (const Crashed&) {
      return Outcome::crashed;
    }
    return Outcome::saved;
  }

  /// Every checkpoint that claims to be complete is whole, and the newest is the expected one or the other.
  static void check_loadable(const std::filesystem::path& run, const Scenario& scenario, Outcome outcome) {
    const std::vector<std::int64_t> steps = complete_steps(run);
    for (const std::int64_t step : steps) {
      const CheckpointReader reader(step_directory(run, step));
      ExampleState(step).expect_equal(reader, 1);
      reader.verify();
    }
    const std::int64_t newest = steps.empty() ? -1 : steps.back();
    const std::int64_t previous = scenario.before.empty() ? -1 : scenario.before.back();
    if (outcome == Outcome::saved) {
      EXPECT_EQ(newest, scenario.step);
    } else if (outcome == Outcome::failed) {
      EXPECT_EQ(newest, previous);
    } else {
      EXPECT_TRUE(newest == scenario.step || newest == previous) << newest;
    }
    if (newest != scenario.step) {
      EXPECT_EQ(steps, scenario.before) << "nothing may be removed before the new one is complete";
    }
  }

  /// Only the one checkpoint is left, and of a crash just before the marker a step that is not loadable: it stays until
  /// the resumed run saves that step again.
  static void check_clean(const std::filesystem::path& run, std::int64_t step, Outcome outcome) {
    for (const auto& entry : std::filesystem::directory_iterator(run / "checkpoints")) {
      const bool unmarked = outcome == Outcome::crashed && entry.path().filename() == std::to_string(step - 1) &&
                            !is_complete_checkpoint(entry.path());
      EXPECT_TRUE(unmarked || entry.path().filename() == std::to_string(step)) << entry.path();
    }
  }

  /// True when the fault was reached.
  static bool run_once(const Scenario& scenario, Fault fault, int at_call) {
    const TemporaryDirectory directory = TemporaryDirectory::in_memory();
    const std::filesystem::path run = directory.path() / "run";
    for (const std::int64_t step : scenario.before) save(step, options(run, 0));
    const auto layer = std::make_shared<FaultyFileLayer>(fault, at_call);
    const Outcome outcome = save_with(layer, scenario.step, options(run, scenario.keep));
    check_loadable(run, scenario, outcome);
    if (outcome == Outcome::saved) {
      layer->lose_power();
      check_loadable(run, scenario, outcome);
    }
    // With the disk repaired, or after a restart, the next save works and clears away what was left.
    save(scenario.step + 1, options(run, 1));
    ExampleState(scenario.step + 1).expect_equal(CheckpointReader(latest_checkpoint(run)), 3);
    check_clean(run, scenario.step + 1, outcome);
    return layer->reached();
  }
};

TEST_P(FaultTest, AtEveryCallOfASave) {
  const std::vector<Scenario> scenarios{
      {"first save", {}, 10, 0}, {"second save", {10}, 20, 0}, {"third save, two are removed", {5, 10}, 20, 1}};
  for (const Scenario& scenario : scenarios) {
    int calls = 1;
    while (run_once(scenario, GetParam(), calls)) {
      if (HasFailure()) FAIL() << scenario.description << ", call " << calls;
      ++calls;
    }
    EXPECT_GT(calls, 30) << scenario.description;
  }
}

std::string fault_name(const ::testing::TestParamInfo<Fault>& fault) {
  switch (fault.param) {
    case Fault::fail_once:
      return "FailOnce";
    case Fault::disk_full:
      return "DiskFull";
    case Fault::crash_keeps:
      return "CrashKeeps";
    case Fault::crash_loses:
      return "CrashLoses";
  }
  return "unknown";
}

INSTANTIATE_TEST_SUITE_P(Faults, FaultTest,
                         ::testing::Values(Fault::fail_once, Fault::disk_full, Fault::crash_keeps, Fault::crash_loses),
                         fault_name);

/// The crash comes while the folder of a step that crashed before is being replaced.
TEST_P(FaultTest, AtEveryCallOfSavingACrashedStepAgain) {
  for (int at_call = 1;; ++at_call) {
    const TemporaryDirectory directory = TemporaryDirectory::in_memory();
    const std::filesystem::path run = directory.path() / "run";
    save(10, options(run, 0));
    save(20, options(run, 0));
    std::filesystem::remove(step_directory(run, 20) / "COMMITTED");
    const auto layer = std::make_shared<FaultyFileLayer>(GetParam(), at_call);
    const Outcome outcome = save_with(layer, 20, options(run, 0));
    check_loadable(run, {"again", {10}, 20, 0}, outcome);
    if (outcome == Outcome::saved) {
      layer->lose_power();
      check_loadable(run, {"again", {10}, 20, 0}, outcome);
    }
    ASSERT_FALSE(HasFailure()) << "call " << at_call;
    if (!layer->reached()) break;
  }
}

TEST(Fault, FullDiskIsNamed) {
  const TemporaryDirectory directory = TemporaryDirectory::in_memory();
  SaveOptions options;
  options.run_directory = directory.path();
  options.device_count = kOwners;
  options.files = std::make_shared<FaultyFileLayer>(Fault::disk_full, 8);
  const ExampleState state(1);
  try {
    save_checkpoint(options, state.info(), state.owned_by(kOwners));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("step 1 was not saved"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("No space left on device"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace maxtext
