#include "inference/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/splitmix64.h"

namespace maxtext {
namespace {

struct Score {
  std::int32_t id = 0;
  float logit = 0;
};

/// The larger logit first, the lower id among equals.
bool before(const Score& a, const Score& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void check(std::span<const float> logits) {
  if (logits.empty()) fail("there are no logits to choose a token from");
  bool possible = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == kInfinity) {
      fail("the logit of token {} is {}: no token can be chosen", i, std::abs(logits[i]));  // nan, not -nan
    }
    possible = possible || logits[i] != -kInfinity;
  }
  if (!possible) fail("all {} logits are -inf: no token can be chosen", logits.size());
}

void check(const SamplingOptions& options) {
  if (options.temperature > 0 && options.repetition_penalty > 0) return;
  fail("temperature {} and repetition penalty {}: both have to be above 0", options.temperature,
       options.repetition_penalty);
}

std::vector<float> penalised(std::span<const float> logits, std::span<const std::int32_t> previous_ids,
                             double penalty) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  std::vector<float> result(logits.begin(), logits.end());
  for (const std::int32_t id : previous_ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= logits.size()) continue;
    const double logit = logits[static_cast<std::size_t>(id)];  // of the input: each id is penalised once
    if (logit == -kInfinity) continue;
    const double penalised_logit = logit < 0 ? logit * penalty : logit / penalty;
    result[static_cast<std::size_t>(id)] = static_cast<float>(std::clamp(penalised_logit, -kLargest, kLargest));
  }
  return result;
}

/// Of possible ids only, so that a logit of −∞ is never drawn.
std::vector<Score> scores_of(std::span<const float> logits) {
  std::vector<Score> scores;
  scores.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] != -kInfinity) scores.push_back({static_cast<std::int32_t>(i), logits[i]});
  }
  return scores;
}

/// The probability of a score divided by the largest one's, which no filter removes. The difference is divided, not the
/// logits, and in double: at a temperature near 0 the others become 0 and nothing infinite or NaN.
struct RelativeProbability {
  double largest_logit = 0;
  double temperature = 1;
  double operator()(const Score& score) const { return std::exp((score.logit - largest_logit) / temperature); }
};

void keep_top_k(std::vector<Score>& scores, std::int64_t k) {
  if (k <= 0 || static_cast<std::size_t>(k) >= scores.size()) return;
  const auto kth = scores.begin() + (k - 1);
  std::nth_element(scores.begin(), kth, scores.end(), before);
  const float threshold = kth->logit;
  std::erase_if(scores, [threshold](const Score& score) { return score.logit < threshold; });
}

/// Takes the most probable from a heap until they sum to top_p: few of a large vocabulary are ever ordered.
void keep_top_p(std::vector<Score>& scores, double top_p, const RelativeProbability& probability) {
  if (top_p >= 1) return;
  double total = 0;
  for (const Score& score : scores) total += probability(score);
  const auto after = [](const Score& a, const Score& b) { return before(b, a); };
  std::ranges::make_heap(scores, after);
  double sum = 0;
  auto end = scores.end();
  do {
    std::pop_heap(scores.begin(), end, after);
    --end;
    sum += probability(*end);
  } while (end != scores.begin() && sum < top_p * total);
  scores.erase(scores.begin(), end);
}

void keep_min_p(std::vector<Score>& scores, double min_p, const RelativeProbability& probability) {
  if (min_p <= 0) return;
  std::erase_if(scores, [&](const Score& score) { return probability(score) < min_p; });
}

std::int32_t argmax(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace

std::vector<Candidate> sampling_candidates(std::span<const float> logits, std::span<const std::int32_t> previous_ids,
                                           const SamplingOptions& options) {
  check(logits);
  check(options);
  std::vector<float> adjusted;
  if (options.repetition_penalty != 1) {
    adjusted = penalised(logits, previous_ids, options.repetition_penalty);
    logits = adjusted;
  }
  if (options.greedy) return {{argmax(logits), 1}};
  const RelativeProbability probability{.largest_logit = *std::ranges::max_element(logits),
                                        .temperature = options.temperature};
  std::vector<Score> scores = scores_of(logits);
  keep_top_k(scores, options.top_k);  // which no temperature changes
  keep_top_p(scores, options.top_p, probability);
  keep_min_p(scores, options.min_p, probability);
  if (!std::ranges::is_sorted(scores, {}, &Score::id)) std::ranges::sort(scores, {}, &Score::id);
  std::vector<Candidate> candidates;
  candidates.reserve(scores.size());
  double total = 0;
  for (const Score& score : scores) {
    candidates.push_back({score.id, probability(score)});
    total += candidates.back().probability;
  }
  for (Candidate& candidate : candidates) candidate.probability /= total;
  return candidates;
}

std::int32_t sample_token(std::span<const float> logits, std::span<const std::int32_t> previous_ids,
                          const SamplingOptions& options, double uniform) {
  const std::vector<Candidate> candidates = sampling_candidates(logits, previous_ids, options);
  double sum = 0;
  std::int32_t last_possible = candidates.front().id;
  for (const Candidate& candidate : candidates) {
    if (candidate.probability == 0) continue;
    last_possible = candidate.id;
    sum += candidate.probability;
    if (uniform < sum) return candidate.id;
  }
  return last_possible;  // the sum fell short of 1 by rounding
}

double request_uniform(std::uint64_t seed, std::uint64_t request, std::uint64_t position) {
  const std::uint64_t stream = splitmix64(splitmix64(seed) ^ request);
  const std::uint64_t bits = splitmix64(stream + position * kSplitmix64Increment);
  return static_cast<double>(bits >> 11U) * 0x1.0p-53;
}

}  // namespace maxtext
