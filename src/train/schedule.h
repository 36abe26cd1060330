// Learning-rate schedules as MaxText computes them (create_learning_rate_schedule in its maxtext_utils).
#pragma once

#include <cstdint>

namespace maxtext {

enum class ScheduleType { cosine, wsd };
enum class DecayStyle { linear, cosine };

/// MaxText's keys of the same names.
struct ScheduleOptions {
  ScheduleType lr_schedule_type = ScheduleType::cosine;
  /// Peak rate.
  double learning_rate = 3e-5;
  /// Steps until the final rate; from this step on the rate is 0.
  std::int64_t learning_rate_schedule_steps = 0;
  double warmup_steps_fraction = 0.1;
  /// Final rate as a fraction of the peak.
  double learning_rate_final_fraction = 0.1;
  /// wsd only: part of the schedule that decays, and how.
  double wsd_decay_steps_fraction = 0.1;
  DecayStyle wsd_decay_style = DecayStyle::linear;
};

/// The lengths of the phases in steps. Fractions of the schedule are rounded down.
struct SchedulePhases {
  std::int64_t warmup = 0;
  std::int64_t stable = 0;
  std::int64_t decay = 0;
};

/// warmup = floor(schedule_steps * warmup_fraction). cosine: no stable phase, decay is the rest. wsd: decay =
/// floor(schedule_steps * decay_fraction), stable is the rest. Throws ConfigError naming the key when a length or a
/// fraction is out of range or when warmup and decay together exceed the schedule.
SchedulePhases schedule_phases(const ScheduleOptions& options);

/// The rate used in `step` (counted from 0).
/// Warmup over W steps: learning_rate * step / W, so step 0 runs at rate 0.
/// Cosine decay over n steps, i-th of them: peak * a + final * (1 - a), a = (1 + cos(pi * i / (n - 1))) / 2 (n = 1:
/// final). Linear decay: peak + (final - peak) * i / max(1, n - 1). Both reach the final rate on their last step (a
/// linear decay of a single step stays at the peak). Throws as schedule_phases does.
double learning_rate_at(const ScheduleOptions& options, std::int64_t step);

}  // namespace maxtext
