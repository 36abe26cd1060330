// YaRN's frequencies against what the paper says of them, and against values worked out by hand for a published model.
#include "ops/rope_frequencies.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace maxtext {
namespace {

/// In the paper's terms: r_i = L·f_i/(2π) turns; kept where r_i > beta_fast, interpolated where r_i < beta_slow;
/// between them the implementation that was published with it goes linearly in the index i, which is linearly in ln r.
TEST(YarnFrequencies, AreThoseOfThePaperByTurns) {
  for (const double theta : {1e4, 1e6}) {
    const YarnScaling scaling{
        .factor = 16, .beta_fast = 32, .beta_slow = 1, .original_length = 4096, .truncate = false};
    const std::vector<double> frequencies = yarn_inverse_frequencies(128, theta, scaling);
    ASSERT_EQ(frequencies.size(), 64U);
    int kept = 0, blended = 0, divided = 0;
    for (std::size_t i = 0; i < 64; ++i) {
      const double plain = std::exp(-static_cast<double>(i) / 64 * std::log(theta));
      const double turns = 4096 * plain / (2 * std::numbers::pi);
      double interpolated = std::log(32 / turns) / std::log(32.0);
      if (turns >= 32) interpolated = 0;
      if (turns <= 1) interpolated = 1;
      (interpolated == 0 ? kept : interpolated == 1 ? divided : blended) += 1;
      const double expected = plain * (1 - interpolated) + plain / 16 * interpolated;
      EXPECT_NEAR(frequencies[i] / expected, 1, 1e-12) << i;
    }
    EXPECT_GT(kept, 5);
    EXPECT_GT(blended, 5);
    EXPECT_GT(divided, 5);
  }
}

/// Qwen 2.5 with its published factor of 4: the ramp goes from floor(23.6) to ceil(39.65).
TEST(YarnFrequencies, Qwen25) {
  const std::vector<double> frequencies = yarn_inverse_frequencies(128, 1e6, {.factor = 4, .original_length = 32768});
  const auto plain = [](int i) { return std::pow(1e6, -i / 64.0); };
  EXPECT_DOUBLE_EQ(frequencies[0], 1);
  EXPECT_NEAR(frequencies[23] / plain(23), 1, 1e-12);
  EXPECT_NEAR(frequencies[24] / plain(24), 1 - 1 / 17.0 * 0.75, 1e-12);
  EXPECT_NEAR(frequencies[30] / plain(30), 1 - 7 / 17.0 * 0.75, 1e-12);
  EXPECT_NEAR(frequencies[39] / plain(39), 1 - 16 / 17.0 * 0.75, 1e-12);
  EXPECT_NEAR(frequencies[40] / plain(40), 0.25, 1e-12);
  EXPECT_NEAR(frequencies[63] / plain(63), 0.25, 1e-12);
}

/// So short that everything turns less than beta_slow: the cut at 0 leaves a ramp of no width.
TEST(YarnFrequencies, AShortOriginalLengthInterpolatesAllButTheFirst) {
  const std::vector<double> frequencies = yarn_inverse_frequencies(16, 1e4, {.factor = 2, .original_length = 5});
  const std::vector<double> plain = rope_inverse_frequencies(16, 1e4);
  EXPECT_EQ(frequencies[0], plain[0]);
  for (std::size_t i = 1; i < 8; ++i) EXPECT_DOUBLE_EQ(frequencies[i], plain[i] / 2) << i;
}

TEST(YarnFrequencies, AttentionFactor) {
  EXPECT_DOUBLE_EQ(yarn_attention_factor(4), 1.138629436111989);
  EXPECT_DOUBLE_EQ(yarn_attention_factor(40, 0.707), 0.1 * 0.707 * std::log(40.0) + 1);
  EXPECT_EQ(yarn_attention_factor(1), 1);
  EXPECT_EQ(yarn_attention_factor(0.5), 1);
}

}  // namespace
}  // namespace maxtext
