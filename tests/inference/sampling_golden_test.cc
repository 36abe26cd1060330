// Candidates and probabilities against transformers' logits processors (fixtures/hf/sampling.json).
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "inference/sampling.h"
#include "testing/fixtures.h"
#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

using Json = nlohmann::json;

SamplingOptions options_of(const Json& steps) {
  SamplingOptions options{.greedy = false};
  for (const Json& step : steps) {
    const auto name = step.at(0).get<std::string>();
    if (name == "temperature") {
      options.temperature = step.at(1);
    } else if (name == "top_k") {
      options.top_k = step.at(1);
    } else if (name == "top_p") {
      options.top_p = step.at(1);
    } else if (name == "min_p") {
      options.min_p = step.at(1);
    } else if (name == "repetition_penalty") {
      options.repetition_penalty = step.at(1);
    } else {
      fail("sampling.json: unknown step '{}'", name);
    }
  }
  return options;
}

void expect_case(const Json& expected, const std::vector<float>& logits, const std::vector<std::int32_t>& previous) {
  const std::vector<Candidate> candidates = sampling_candidates(logits, previous, options_of(expected.at("steps")));
  std::vector<std::int32_t> kept;
  for (const Candidate& candidate : candidates) kept.push_back(candidate.id);
  std::vector<std::int32_t> wanted = expected.at("kept");
  std::ranges::sort(wanted);
  ASSERT_EQ(kept, wanted) << expected.at("steps");
  const std::vector<double> probabilities = expected.at("probs");
  ASSERT_EQ(probabilities.size(), logits.size());
  for (const Candidate& candidate : candidates) {
    EXPECT_NEAR(candidate.probability, probabilities[static_cast<std::size_t>(candidate.id)], 1e-6)
        << expected.at("steps") << " id " << candidate.id;
  }
}

Json golden() { return Json::parse(testing::read_file(testing::find_fixtures("hf/sampling.json").front())); }

TEST(SamplingGolden, CandidatesAndProbabilitiesAreThoseOfTransformers) {
  const Json data = golden();
  const std::vector<float> logits = data.at("logits");
  const std::vector<std::int32_t> previous = data.at("previous_ids");
  ASSERT_GT(data.at("cases").size(), 30U);
  for (const Json& expected : data.at("cases")) expect_case(expected, logits, previous);
}

TEST(SamplingGolden, TiesAreKeptWhereTheyCount) {
  const Json data = golden();
  const std::vector<float> logits(data.at("logits").size(), 0.0F);
  int compared = 0;
  for (const Json& expected : data.at("flat_logits_cases").at("cases")) {
    // Which of equal ids top_p keeps is a matter of sorting, and not to be matched (the fixture's note).
    if (expected.at("steps").dump().find("top_p") != std::string::npos) continue;
    expect_case(expected, logits, {});
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace maxtext
