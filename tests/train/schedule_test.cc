#include "train/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace maxtext {
namespace {

using ::testing::HasSubstr;

ScheduleOptions wsd(std::int64_t steps, double warmup, double decay) {
  ScheduleOptions options;
  options.lr_schedule_type = ScheduleType::wsd;
  options.learning_rate = 2.0;
  options.learning_rate_schedule_steps = steps;
  options.warmup_steps_fraction = warmup;
  options.wsd_decay_steps_fraction = decay;
  options.learning_rate_final_fraction = 0.5;
  return options;
}

std::string error_of(const ScheduleOptions& options) {
  try {
    schedule_phases(options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Schedule, PhasesFillTheScheduleAndRoundDown) {
  const SchedulePhases phases = schedule_phases(wsd(41, 0.1, 0.25));
  EXPECT_EQ(phases.warmup, 4);
  EXPECT_EQ(phases.decay, 10);
  EXPECT_EQ(phases.stable, 27);
}

TEST(Schedule, IsZeroAfterItsLastStep) {
  const ScheduleOptions options = wsd(10, 0.2, 0.3);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 9), 1.0);
  EXPECT_EQ(learning_rate_at(options, 10), 0.0);
  EXPECT_EQ(learning_rate_at(options, 1'000'000), 0.0);
}

TEST(Schedule, SingleStepSchedulesAreDefined) {
  ScheduleOptions options;
  options.learning_rate = 1.0;
  options.learning_rate_schedule_steps = 1;
  options.learning_rate_final_fraction = 0.25;
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 0), 0.25);
  EXPECT_EQ(learning_rate_at(options, 1), 0.0);
}

TEST(Schedule, WarmupMayBeTheWholeSchedule) {
  const ScheduleOptions options = wsd(4, 1.0, 0.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 3), 1.5);
  EXPECT_EQ(learning_rate_at(options, 4), 0.0);
}

TEST(Schedule, WrongOptionsNameTheirKey) {
  EXPECT_THAT(error_of(wsd(0, 0.1, 0.1)), HasSubstr("learning_rate_schedule_steps=0"));
  EXPECT_THAT(error_of(wsd(10, -0.1, 0.1)), HasSubstr("warmup_steps_fraction=-0.1"));
  EXPECT_THAT(error_of(wsd(10, 0.1, 1.5)), HasSubstr("wsd_decay_steps_fraction=1.5"));
  EXPECT_THAT(error_of(wsd(10, 0.6, 0.6)), HasSubstr("6 + 6 steps exceed the schedule of 10"));
}

}  // namespace
}  // namespace maxtext
