// The one merge of attention states (ops/merge_states.h): parts of a split, devices, sinks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace maxtext {

/// A query row's attention over some keys: o = Σ exp(s_j − m) · v_j of head_dim elements, l = Σ exp(s_j − m),
/// m = max s_j. Empty where l = 0 or m = −∞, whatever o holds.
struct AttentionState {
  const float* o = nullptr;
  float l = 0;
  float m = -std::numeric_limits<float>::infinity();

  bool empty() const { return l == 0 || m == -std::numeric_limits<float>::infinity(); }
};

/// Writes the merge of `count` states, state(i) being the i-th: l and m, and o (divided by l with `normalize`). `sink`,
/// where there is one, joins as a state m = *sink, l = 1, o = 0.
template <typename State>
void merge_states(std::int64_t count, const State& state, const float* sink, bool normalize, std::int64_t head_dim,
                  float* o, float* l, float* m) {
  float highest = sink == nullptr ? -std::numeric_limits<float>::infinity() : *sink;
  for (std::int64_t i = 0; i < count; ++i) {
    const AttentionState part = state(i);
    if (!part.empty()) highest = std::max(highest, part.m);
  }
  std::fill(o, o + head_dim, 0.0F);
  *m = highest;
  // NaN in a state shows in l and o; a sum over all states is 0 where all are empty.
  double sum = sink == nullptr || std::isinf(highest) ? 0 : std::exp(static_cast<double>(*sink) - highest);
  for (std::int64_t i = 0; i < count; ++i) {
    const AttentionState part = state(i);
    if (part.empty()) continue;
    const double weight = std::exp(static_cast<double>(part.m) - highest);
    sum += weight * part.l;
    const auto factor = static_cast<float>(weight);
    for (std::int64_t d = 0; d < head_dim; ++d) o[d] += factor * part.o[d];
  }
  *l = static_cast<float>(sum);
  if (!normalize || *l == 0) return;
  const auto inverse = static_cast<float>(1 / sum);
  for (std::int64_t d = 0; d < head_dim; ++d) o[d] *= inverse;
}

}  // namespace maxtext
