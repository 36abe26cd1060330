// From logits to the next token: the usual filters, in the order of Hugging Face transformers' generate().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace maxtext {

/// Applied in the order of the members; the defaults do nothing but leave the distribution as it is.
struct SamplingOptions {
  /// Takes the largest logit (after the penalty), the lowest id among equals; the other filters have no effect.
  bool greedy = true;
  /// Of ids that occurred before, once each: logit < 0 ? logit · penalty : logit / penalty (Keskar et al. 2019); > 0.
  /// What is beyond float's range becomes its end.
  double repetition_penalty = 1;
  /// Logits are divided by it; > 0. The smaller it is, the nearer to greedy, without overflow.
  double temperature = 1;
  /// Keeps ids whose logit is at least the k-th largest, all of several equal ones too; 0 keeps all.
  std::int64_t top_k = 0;
  /// Keeps the fewest most probable ids whose probabilities sum to at least top_p (Holtzman et al. 2020); 1 keeps all.
  double top_p = 1;
  /// Keeps ids with a probability of at least min_p times the largest (Nguyen et al. 2024); 0 keeps all.
  double min_p = 0;
};

struct Candidate {
  std::int32_t id = 0;
  double probability = 0;
};

/// The ids that remain, ascending, and their probabilities, which sum to 1 and may be 0. logits [vocab_size]; a NaN
/// among them, or a +inf, throws Error naming the id, and so do logits that are all -inf, and options out of range.
/// Costs some passes over the vocabulary; only as much of it is ordered as top_p keeps.
std::vector<Candidate> sampling_candidates(std::span<const float> logits, std::span<const std::int32_t> previous_ids,
                                           const SamplingOptions& options);

/// The next id. `uniform` in [0, 1) picks from the candidates' cumulative probabilities and is not read when greedy.
std::int32_t sample_token(std::span<const float> logits, std::span<const std::int32_t> previous_ids,
                          const SamplingOptions& options, double uniform);

/// Number `position` of the stream of random numbers of a request, in [0, 1): a pure function, so that a request draws
/// the same numbers whatever shares its batch.
double request_uniform(std::uint64_t seed, std::uint64_t request, std::uint64_t position);

}  // namespace maxtext
