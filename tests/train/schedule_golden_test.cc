#include "train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/fixtures.h"

namespace maxtext {
namespace {

ScheduleOptions options_of(const nlohmann::json& config) {
  ScheduleOptions options;
  options.lr_schedule_type = config.at("lr_schedule_type") == "wsd" ? ScheduleType::wsd : ScheduleType::cosine;
  options.learning_rate = config.at("learning_rate");
  options.learning_rate_schedule_steps = config.at("learning_rate_schedule_steps");
  options.warmup_steps_fraction = config.at("warmup_steps_fraction");
  options.learning_rate_final_fraction = config.at("learning_rate_final_fraction");
  options.wsd_decay_steps_fraction = config.at("wsd_decay_steps_fraction");
  options.wsd_decay_style = config.at("wsd_decay_style") == "cosine" ? DecayStyle::cosine : DecayStyle::linear;
  return options;
}

TEST(ScheduleGolden, EveryStepIsMaxTexts) {
  std::ifstream file(testing::find_fixtures("maxtext/schedule.json").front());
  const nlohmann::json cases = nlohmann::json::parse(file);
  ASSERT_EQ(cases.size(), 6u);
  for (const auto& item : cases) {
    const ScheduleOptions options = options_of(item.at("config"));
    const auto& rates = item.at("lr");
    for (std::size_t step = 0; step < rates.size(); ++step) {
      EXPECT_NEAR(learning_rate_at(options, static_cast<std::int64_t>(step)), rates[step].get<double>(),
                  1e-6 * options.learning_rate)
          << item.at("config") << " step " << step;
    }
  }
}

}  // namespace
}  // namespace maxtext
