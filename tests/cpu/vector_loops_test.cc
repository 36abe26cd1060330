// The inner loops on every instruction set of this machine.
#include "engines/cpu/vector_loops.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace maxtext {
namespace {

class VectorLoopsTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  const VectorLoops<float>& loops = vector_loops<float>(GetParam());
};

TEST_P(VectorLoopsTest, ExponentialsAreAccurateToTwoUnitsInTheLastPlace) {
  std::vector<float> x;
  for (int i = -87000; i <= 87000; i += 7) x.push_back(static_cast<float>(i) * 1e-3F);
  std::vector<float> y = x;
  loops.exponentials(static_cast<std::int64_t>(y.size()), 0.0F, y.data());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) - exact) / exact);
  }
  EXPECT_LT(worst, 0x1p-22);
}

TEST_P(VectorLoopsTest, ExponentialsKeepNanAndVanishFarBelow) {
  std::vector<float> y{std::numeric_limits<float>::quiet_NaN(), -1000.0F, -std::numeric_limits<float>::infinity(),
                       0.0F};
  loops.exponentials(4, 0.0F, y.data());
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_LT(y[1], 2e-38F);
  EXPECT_LT(y[2], 2e-38F);
  EXPECT_EQ(y[3], 1.0F);
}

TEST_P(VectorLoopsTest, TheSumOfExponentialsIsThatOfTheLoopInPlace) {
  for (const int n : {0, 1, 17, 1023, 1024, 1025, 5000}) {
    std::vector<float> x;
    for (int i = 0; i < n; ++i) x.push_back(2.5F * std::sin(1.7F * static_cast<float>(i)));
    std::vector<float> y = x;
    EXPECT_EQ(loops.sum_of_exponentials(n, 2.5F, x.data()), loops.exponentials(n, 2.5F, y.data())) << n;
  }
  const std::vector<float> nan(3, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(loops.sum_of_exponentials(3, 0.0F, nan.data())));
}

/// Every payload and sign: some would come out as ordinary numbers if their bits took part in integer arithmetic.
TEST_P(VectorLoopsTest, ExponentialsKeepEveryNan) {
  std::vector<float> y;
  for (const std::uint32_t payload : {1U, 2U, 0x100U, 0x1ffU, 0x12345U, 0x200000U, 0x3fffffU, 0x400000U, 0x400001U,
                                      0x4000ffU, 0x5a5a5aU, 0x7ffffeU, 0x7fffffU}) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) y.push_back(std::bit_cast<float>(sign | 0x7f800000U | payload));
  }
  const std::vector<float> nans = y;
  EXPECT_TRUE(std::isnan(loops.exponentials(static_cast<std::int64_t>(y.size()), 0.0F, y.data())));
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_TRUE(std::isnan(y[i])) << i << " became " << y[i];
  // One in a row of numbers: whatever the maximum makes of it, the sum carries it.
  for (const float nan : nans) {
    std::vector<float> row(40, 1.0F);
    row[17] = nan;
    const float top = loops.maximum(40, row.data());
    EXPECT_TRUE(std::isnan(loops.exponentials(40, top, row.data())));
  }
  std::vector<float> gate = nans;
  std::vector<float> out(gate.size()), up(gate.size(), 1.0F);
  loops.gate(static_cast<std::int64_t>(gate.size()), GateKind::silu, gate.data(), up.data(), out.data());
  for (const float value : out) EXPECT_TRUE(std::isnan(value));
}

TEST_P(VectorLoopsTest, SoftCapIsAccurateToFourUnitsInTheLastPlaceNearZeroToo) {
  std::vector<float> x;
  for (double exponent = -30; exponent < 7; exponent += 1e-3) {
    x.push_back(static_cast<float>(std::exp2(exponent)));
    x.push_back(-x.back());
  }
  std::vector<float> y(x.size());
  loops.soft_cap(static_cast<std::int64_t>(x.size()), 1.0F, x.data(), y.data());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::tanh(static_cast<double>(x[i]));
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) / exact - 1));
    EXPECT_LE(std::abs(y[i]), 1.0F) << x[i];
  }
  EXPECT_LT(worst, 0x1p-21);
}

TEST_P(VectorLoopsTest, SoftCapInPlaceAtTheEndsAndOfNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> x{0.0F, kInfinity, -kInfinity, 1e30F, std::numeric_limits<float>::quiet_NaN(), 15.0F};
  loops.soft_cap(6, 30.0F, x.data(), x.data());
  EXPECT_EQ(x[0], 0.0F);
  EXPECT_EQ(x[1], 30.0F);
  EXPECT_EQ(x[2], -30.0F);
  EXPECT_EQ(x[3], 30.0F);
  EXPECT_TRUE(std::isnan(x[4]));
  EXPECT_NEAR(x[5], 30 * std::tanh(0.5), 1e-5);
}

TEST_P(VectorLoopsTest, AnElementsResultDoesNotDependOnItsPlace) {
  std::vector<float> gate(40), up(40, 1.5F), all(40), part(40);
  for (std::size_t i = 0; i < 40; ++i) gate[i] = std::sin(static_cast<float>(i)) * 3.0F;
  loops.gate(40, GateKind::silu, gate.data(), up.data(), all.data());
  for (std::size_t first = 0; first < 17; ++first) {
    const std::size_t count = 40 - first - first % 5;
    loops.gate(static_cast<std::int64_t>(count), GateKind::silu, gate.data() + first, up.data(), part.data());
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(part[i], all[first + i]);
  }
}

TEST_P(VectorLoopsTest, MaximumOfAnyLength) {
  std::vector<float> x(50, -5.0F);
  for (std::size_t n = 1; n <= x.size(); ++n) {
    for (std::size_t place = 0; place < n; ++place) {
      x[place] = -1.0F;
      EXPECT_EQ(loops.maximum(static_cast<std::int64_t>(n), x.data()), -1.0F);
      x[place] = -5.0F;
    }
  }
  EXPECT_EQ(loops.maximum(0, x.data()), -std::numeric_limits<float>::infinity());
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, VectorLoopsTest, ::testing::ValuesIn(available_instruction_sets()),
                         [](const auto& instance) { return std::string(instruction_set_name(instance.param)); });

}  // namespace
}  // namespace maxtext
