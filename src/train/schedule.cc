#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "base/error.h"

namespace maxtext {
namespace {

void require_fraction(std::string_view key, double value) {
  if (!(value >= 0.0 && value <= 1.0)) fail_config("{}={}: expected a fraction between 0 and 1", key, value);
}

double cosine_decay(double peak, double final_rate, std::int64_t i, std::int64_t n) {
  const double progress = n > 1 ? static_cast<double>(i) / static_cast<double>(n - 1) : 1.0;
  const double a = 0.5 * (std::cos(std::numbers::pi * progress) + 1.0);
  return peak * a + final_rate * (1.0 - a);
}

double linear_decay(double peak, double final_rate, std::int64_t i, std::int64_t n) {
  const double progress = static_cast<double>(i) / static_cast<double>(std::max<std::int64_t>(1, n - 1));
  return peak + (final_rate - peak) * progress;
}

}  // namespace

SchedulePhases schedule_phases(const ScheduleOptions& options) {
  const std::int64_t steps = options.learning_rate_schedule_steps;
  if (steps < 1) fail_config("learning_rate_schedule_steps={}: expected at least 1", steps);
  require_fraction("warmup_steps_fraction", options.warmup_steps_fraction);

  SchedulePhases phases;
  phases.warmup = static_cast<std::int64_t>(static_cast<double>(steps) * options.warmup_steps_fraction);
  if (options.lr_schedule_type == ScheduleType::cosine) {
    phases.decay = steps - phases.warmup;
    return phases;
  }
  require_fraction("wsd_decay_steps_fraction", options.wsd_decay_steps_fraction);
  phases.decay = static_cast<std::int64_t>(static_cast<double>(steps) * options.wsd_decay_steps_fraction);
  phases.stable = steps - phases.warmup - phases.decay;
  if (phases.stable < 0) {
    fail_config("warmup_steps_fraction={} and wsd_decay_steps_fraction={}: {} + {} steps exceed the schedule of {}",
                options.warmup_steps_fraction, options.wsd_decay_steps_fraction, phases.warmup, phases.decay, steps);
  }
  return phases;
}

double learning_rate_at(const ScheduleOptions& options, std::int64_t step) {
  const SchedulePhases phases = schedule_phases(options);
  const double peak = options.learning_rate;
  const double final_rate = peak * options.learning_rate_final_fraction;

  if (step < phases.warmup) return peak * static_cast<double>(step) / static_cast<double>(phases.warmup);
  step -= phases.warmup;
  if (step < phases.stable) return peak;
  step -= phases.stable;
  if (step >= phases.decay) return 0.0;

  const bool linear = options.lr_schedule_type == ScheduleType::wsd && options.wsd_decay_style == DecayStyle::linear;
  return linear ? linear_decay(peak, final_rate, step, phases.decay)
                : cosine_decay(peak, final_rate, step, phases.decay);
}

}  // namespace maxtext
