// The comparisons themselves must be able to fail.
#include "testing/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace maxtext::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Compare, AllCloseIsRelativeToTheMaximum) {
  EXPECT_TRUE(all_close(Floats{100, 0.0009F}, Floats{100, 0}, 1e-5));
  const auto failed = all_close(Floats{100, 0x1p-9F}, Floats{100, 0}, 1e-5, "grad");
  EXPECT_FALSE(failed);
  EXPECT_THAT(failed.message(), AllOf(HasSubstr("grad"), HasSubstr("element 1"), HasSubstr("0.001953125"),
                                      HasSubstr("1.95e-05"), HasSubstr("1e-05")));
}

TEST(Compare, NotFiniteValues) {
  EXPECT_TRUE(all_close(Floats{-kInfinity, 1}, Floats{-kInfinity, 1}, 0));
  EXPECT_FALSE(all_close(Floats{kInfinity, 1}, Floats{-kInfinity, 1}, 1));
  EXPECT_FALSE(all_close(Floats{kNan, 1}, Floats{kNan, 1}, 1));
  EXPECT_FALSE(all_close(Floats{kNan, 1}, Floats{0, 1}, 1));
  EXPECT_FALSE(all_close(Floats{0, 1}, Floats{kInfinity, 1}, 1));
}

TEST(Compare, SizesAndZeros) {
  EXPECT_FALSE(all_close(Floats{1}, Floats{1, 2}, 1));
  EXPECT_TRUE(all_close(Floats{0, 0}, Floats{0, 0}, 0));
  EXPECT_FALSE(all_close(Floats{1e-30F}, Floats{0}, 1));
}

TEST(Compare, Bitwise) {
  EXPECT_TRUE(bitwise_equal(Floats{kNan, 1}, Floats{kNan, 1}));
  EXPECT_FALSE(bitwise_equal(Floats{-0.0F}, Floats{0.0F}));
  EXPECT_FALSE(bitwise_equal(Floats{1}, Floats{1, 1}));
  EXPECT_THAT(bitwise_equal(Floats{1, 2}, Floats{1, 3}).message(), HasSubstr("element 1"));
}

TEST(Compare, MaxAbsDifference) {
  EXPECT_EQ(max_abs_difference(Floats{1, 5}, Floats{2, 2}), 3);
  EXPECT_TRUE(std::isnan(max_abs_difference(Floats{kNan}, Floats{2})));
}

}  // namespace
}  // namespace maxtext::testing
