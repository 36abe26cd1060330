#include "train/non_finite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <vector>

namespace maxtext {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::vector<std::string> kNames{"a.weight", "b.weight", "c.weight"};

TEST(NonFinite, NamesTheFirstOfSeveral) {
  const auto found = first_non_finite(std::vector<double>{1.0, kInfinity, kNan}, kNames);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->index, 1u);
  EXPECT_EQ(found->name, "b.weight");
  EXPECT_EQ(found->sum_of_squares, kInfinity);
}

TEST(NonFinite, NothingWhenAllAreFinite) {
  EXPECT_FALSE(first_non_finite(std::vector<double>{0.0, 1e300, 2.0}, kNames).has_value());
}

TEST(NonFinite, ListsOfDifferentLengthAreAProgramError) {
  EXPECT_THROW(first_non_finite(std::vector<double>{0.0}, kNames), std::logic_error);
}

TEST(NonFinite, MessageHasStepLossAndTensor) {
  const NonFiniteTensor tensor{2, "gradient of c.weight", kNan};
  EXPECT_THAT(describe_non_finite(7, kNan, tensor),
              AllOf(HasSubstr("nan at step 7"), HasSubstr(": gradient of c.weight")));
  EXPECT_EQ(describe_non_finite(7, kInfinity, std::nullopt), "loss is inf at step 7");
  EXPECT_EQ(describe_non_finite(1, 6.25, tensor),
            "gradient norm is not finite at step 1, loss 6.25; first tensor that is not finite: gradient of c.weight");
}

}  // namespace
}  // namespace maxtext
