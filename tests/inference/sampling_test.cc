#include "inference/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"

namespace maxtext {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Sampling, GreedyTakesTheLargestAndTheLowerOfEqualIds) {
  const std::vector<float> logits = {0.5F, 2, -1, 2};
  EXPECT_EQ(sample_token(logits, {}, {}, 0.9), 1);
}

TEST(Sampling, GreedyHonoursTheRepetitionPenalty) {
  const std::vector<float> logits = {1.9F, 2, -1};
  const std::vector<std::int32_t> previous = {1, 1, 1, 99};  // counted once; 99 is not in the vocabulary
  EXPECT_EQ(sample_token(logits, previous, {.greedy = true, .repetition_penalty = 1.04}, 0), 1);
  EXPECT_EQ(sample_token(logits, previous, {.greedy = true, .repetition_penalty = 1.1}, 0), 0);
}

TEST(Sampling, FrequenciesFollowTheProbabilities) {
  const std::vector<float> logits = {0, std::log(2.0F), std::log(5.0F), -kInfinity};
  std::vector<int> counts(4);
  constexpr int kDraws = 80000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    ++counts[static_cast<std::size_t>(sample_token(logits, {}, {.greedy = false}, request_uniform(7, 3, i)))];
  }
  EXPECT_NEAR(counts[0], kDraws / 8.0, 5 * std::sqrt(kDraws / 8.0));
  EXPECT_NEAR(counts[1], kDraws / 4.0, 5 * std::sqrt(kDraws / 4.0));
  EXPECT_NEAR(counts[2], kDraws / 1.6, 5 * std::sqrt(kDraws / 1.6));
  EXPECT_EQ(counts[3], 0);
}

TEST(Sampling, TheEndsOfTheUnitIntervalGiveTheFirstAndTheLastId) {
  const std::vector<float> logits = {1, 1, 1};
  EXPECT_EQ(sample_token(logits, {}, {.greedy = false}, 0), 0);
  EXPECT_EQ(sample_token(logits, {}, {.greedy = false}, std::nextafter(1.0, 0.0)), 2);
}

TEST(Sampling, ImpossibleLogitsAreErrorsThatNameTheToken) {
  const std::vector<float> none = {-kInfinity, -kInfinity};
  EXPECT_THROW(sample_token(none, {}, {.greedy = false}, 0), Error);
  EXPECT_THROW(sample_token(none, {}, {.greedy = true}, 0), Error);
  EXPECT_THROW(sample_token(std::vector<float>{0, kInfinity}, {}, {.greedy = true}, 0), Error);
  EXPECT_THROW(sample_token(std::vector<float>{0, std::nanf("")}, {}, {.greedy = false}, 0), Error);
  try {
    sample_token(std::vector<float>{0, std::nanf("")}, {}, {}, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("token 1"), std::string::npos) << error.what();
  }
}

TEST(Sampling, OptionsThatDivideByNothingAreErrors) {
  const std::vector<float> logits = {1, 2};
  for (const double value : {0.0, -1.0, std::nan("")}) {
    EXPECT_THROW(sample_token(logits, {}, {.greedy = false, .temperature = value}, 0), Error) << value;
    EXPECT_THROW(sample_token(logits, {}, {.repetition_penalty = value}, 0), Error) << value;
  }
}

constexpr double kSmallest = std::numeric_limits<double>::denorm_min();
constexpr double kLargest = std::numeric_limits<double>::max();

/// Draws at both ends and in the middle of the unit interval.
std::vector<double> uniforms() { return {0, 0.5, std::nextafter(1.0, 0.0)}; }

TEST(Sampling, TowardsTemperature0ItIsGreedy) {
  const std::vector<float> logits = {-3, 1.5F, 2, 1.999F, -kInfinity, 0};
  for (const double temperature : {1e-5, 1e-30, 1e-38, 1e-45, 1e-60, 1e-300, kSmallest}) {
    for (const double uniform : uniforms()) {
      EXPECT_EQ(sample_token(logits, {}, {.greedy = false, .temperature = temperature}, uniform), 2) << temperature;
    }
    // The limit of the distribution, where two are the largest.
    const std::vector<Candidate> equal =
        sampling_candidates(std::vector<float>{2, 1, 2}, {}, {.greedy = false, .temperature = temperature});
    ASSERT_EQ(equal.size(), 3U);
    EXPECT_EQ(equal[0].probability, 0.5) << temperature;
    EXPECT_EQ(equal[1].probability, 0) << temperature;
    EXPECT_EQ(equal[2].probability, 0.5) << temperature;
  }
}

TEST(Sampling, TowardsAnInfiniteTemperatureAllAreEqual) {
  const std::vector<float> logits = {-1e30F, 1e30F, 0, -kInfinity};
  const std::vector<Candidate> candidates = sampling_candidates(logits, {}, {.greedy = false, .temperature = kLargest});
  ASSERT_EQ(candidates.size(), 3U);
  for (const Candidate& candidate : candidates) EXPECT_NEAR(candidate.probability, 1.0 / 3, 1e-9);
}

TEST(Sampling, ExtremePenaltiesSaturate) {
  const std::vector<float> logits = {0, 3, -3, 2};
  for (const double penalty : {kSmallest, 1e-300, 1e-60, 1e-39}) {
    EXPECT_EQ(sample_token(logits, std::vector<std::int32_t>{3}, {.repetition_penalty = penalty}, 0), 3) << penalty;
    EXPECT_EQ(sample_token(logits, std::vector<std::int32_t>{0, 2}, {.repetition_penalty = penalty}, 0), 1) << penalty;
  }
  for (const double penalty : {1e39, 1e60, 1e300, kLargest}) {
    EXPECT_EQ(sample_token(logits, std::vector<std::int32_t>{1}, {.repetition_penalty = penalty}, 0), 3) << penalty;
    EXPECT_EQ(
        sampling_candidates(logits, std::vector<std::int32_t>{2}, {.greedy = false, .repetition_penalty = penalty})
            .at(2)
            .probability,
        0)
        << penalty;
  }
}

/// All options at their ends, in all combinations, on logits at theirs: possible ids only, with a distribution.
TEST(Sampling, NoOptionsMakeAnythingButADistribution) {
  constexpr float kFloatMax = std::numeric_limits<float>::max();
  const std::vector<std::vector<float>> all_logits = {{kFloatMax, -kFloatMax, 0, -kInfinity},
                                                      {-kFloatMax, -kFloatMax, -kInfinity},
                                                      {kFloatMax, kFloatMax, -kInfinity},
                                                      {0, -0.0F, -kInfinity},
                                                      {1e-45F, 2e-45F, -1e-45F},
                                                      {-kInfinity, 1, 2, 3, -kInfinity}};
  const std::vector<std::int32_t> previous = {0, 1, 2, 3};
  int checked = 0;
  const auto check = [&](const std::vector<float>& logits, const SamplingOptions& options) {
    double sum = 0;
    for (const Candidate& candidate : sampling_candidates(logits, previous, options)) {
      ASSERT_GE(candidate.probability, 0);
      sum += candidate.probability;
    }
    ASSERT_NEAR(sum, 1, 1e-12);
    for (const double uniform : uniforms()) {
      const std::int32_t id = sample_token(logits, previous, options, uniform);
      ASSERT_NE(logits.at(static_cast<std::size_t>(id)), -kInfinity);
    }
    ++checked;
  };
  for (const std::vector<float>& logits : all_logits) {
    for (const double penalty : {kSmallest, 1e-39, 1.0, 1e39, kLargest}) {
      for (const double temperature : {kSmallest, 1e-39, 1.0, 1e39, kLargest}) {
        for (const std::int64_t top_k : {std::int64_t{0}, std::int64_t{1}, std::int64_t{3}, INT64_MAX}) {
          for (const double top_p : {kSmallest, 0.5, std::nextafter(1.0, 0.0), 1.0}) {
            for (const double min_p : {0.0, kSmallest, 1.0}) {
              SCOPED_TRACE(::testing::PrintToString(logits) + " " +
                           ::testing::PrintToString(std::vector<double>{penalty, temperature, top_p, min_p}));
              check(logits, {false, penalty, temperature, top_k, top_p, min_p});
              check(logits, {true, penalty, temperature, top_k, top_p, min_p});
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(checked, 2 * 6 * 5 * 5 * 4 * 4 * 3);
}

/// Ten times a tenth is less than 1: what is left is not for an id of probability 0.
TEST(Sampling, RoundingDrawsNoImpossibleId) {
  std::vector<float> logits(10, 0.0F);
  logits.push_back(-2000);
  EXPECT_EQ(sample_token(logits, {}, {.greedy = false}, std::nextafter(1.0, 0.0)), 9);
}

TEST(Sampling, StreamsOfRequestsAndSeedsDiffer) {
  std::set<double> numbers;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    for (std::uint64_t request = 0; request < 4; ++request) {
      for (std::uint64_t position = 0; position < 100; ++position) {
        const double number = request_uniform(seed, request, position);
        EXPECT_GE(number, 0);
        EXPECT_LT(number, 1);
        numbers.insert(number);
      }
    }
  }
  EXPECT_EQ(numbers.size(), 1600U);
}

}  // namespace
}  // namespace maxtext
