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
  try {
    sample_token(std::vector<float>{0, std::nanf("")}, {}, {}, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("token 1"), std::string::npos) << error.what();
  }
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
