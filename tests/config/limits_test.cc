// Numbers that the program multiplies or narrows are bounded where they are given.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config_folder.h"

namespace maxtext {
namespace {

using testing::config_error;
using ::testing::HasSubstr;

std::string error_of(const std::string& key, const std::string& text) {
  Config config;
  return config_error([&] { config.set(key, text, {SourceKind::command_line, "command line"}); });
}

TEST(ConfigLimits, TimeoutsAreMillisecondsThatFit) {
  EXPECT_THAT(error_of("collective_timeout_seconds", "1e300"), HasSubstr("0.001 to 100000000"));
  EXPECT_THAT(error_of("collective_timeout_seconds", "0.0001"), HasSubstr("0.001 to 100000000"));
  Config config;
  config.set("collective_timeout_seconds", "1e8", {SourceKind::command_line, "command line"});
  EXPECT_EQ(config.real("collective_timeout_seconds"), 1e8);
}

TEST(ConfigLimits, CountsThatBecomeAnInt) {
  EXPECT_THAT(error_of("threads_per_device", "65537"), HasSubstr("0 to 65536"));
  EXPECT_THAT(error_of("max_num_checkpoints_to_keep", "4294967297"), HasSubstr("-1 or 1 to 1000000000"));
}

}  // namespace
}  // namespace maxtext
