// Requests that the tests of this layer share: names for printing, and simulated training data.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "context/context_plan.h"

namespace maxtext::testing {

inline const std::vector<ReorderStrategy>& fixed_strategies() {
  static const std::vector<ReorderStrategy> all = {ReorderStrategy::none, ReorderStrategy::dual_chunk_swap,
                                                   ReorderStrategy::striped, ReorderStrategy::balanced};
  return all;
}

inline ContextPlanRequest one_document(std::int64_t length, int devices, ReorderStrategy strategy) {
  ContextPlanRequest request;
  request.sequence_length = length;
  request.document_lengths = {{length}};
  request.context_parallelism = devices;
  request.reorder = strategy;
  return request;
}

inline std::string describe(const ContextPlanRequest& request) {
  std::string text = "S=" + std::to_string(request.sequence_length) +
                     " cp=" + std::to_string(request.context_parallelism) + " " +
                     std::string(reorder_strategy_name(request.reorder)) + " stripe=" + std::to_string(request.stripe);
  for (const auto& row : request.document_lengths) {
    text += " [";
    for (const std::int64_t length : row) text += std::to_string(length) + " ";
    text += "]";
  }
  for (const AttentionType& type : request.attention_types) text += " w=" + std::to_string(type.window);
  return text;
}

/// Packs documents of log-normal length (mean about 4500 tokens, sigma 1.5, at most half the row) until the row is
/// full; the last one is cut. Box and Muller's transform, because std::lognormal_distribution differs between
/// libraries.
inline std::vector<std::int64_t> packed_row(std::int64_t length, std::mt19937_64& random) {
  const auto uniform = [&] { return (static_cast<double>(random() >> 11U) + 0.5) * 0x1.0p-53; };
  constexpr double kSigma = 1.25;
  const double mu = std::log(static_cast<double>(length) / 29) - kSigma * kSigma / 2;
  std::vector<std::int64_t> lengths;
  for (std::int64_t used = 0; used < length; used += lengths.back()) {
    const double normal = std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform());
    const auto drawn = static_cast<std::int64_t>(std::exp(mu + kSigma * normal));
    lengths.push_back(std::min(std::min(std::max<std::int64_t>(drawn, 1), length / 2), length - used));
  }
  return lengths;
}

}  // namespace maxtext::testing
