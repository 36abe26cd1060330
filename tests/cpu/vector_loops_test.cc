// The inner loops on every instruction set of this machine.
#include "engines/cpu/vector_loops.h"

#include <gtest/gtest.h>

#include <cmath>
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
