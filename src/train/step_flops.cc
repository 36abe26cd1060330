#include "train/step_flops.h"

#include <algorithm>

namespace maxtext {
namespace {

constexpr double kForwardAndBackward = 3.0;

/// Score and value products need 2 FLOPs each per (query, key, head_dim element).
constexpr double kAttentionFlopsPerPair = 4.0;

double causal_area(double sequence, double window) {
  if (window <= 0 || window >= sequence) return sequence * sequence / 2.0;
  return sequence * window - window * window / 2.0;
}

}  // namespace

StepFlops step_flops(const ModelShape& shape, double per_device_batch_size, std::int64_t sequence_length,
                     std::int64_t gradient_accumulation_steps) {
  const auto sequence = static_cast<double>(sequence_length);
  const double rows = per_device_batch_size * static_cast<double>(gradient_accumulation_steps);
  const auto hidden = static_cast<double>(shape.hidden_size);
  const auto query_width = static_cast<double>(shape.query_heads * shape.head_dim);
  const auto kv_width = static_cast<double>(shape.kv_heads * shape.head_dim);

  const double mlp_weights = 3.0 * hidden * static_cast<double>(shape.intermediate_size);
  const double attention_weights = hidden * (query_width + 2.0 * kv_width) + query_width * hidden;
  const double head_weights = hidden * static_cast<double>(shape.vocab_size);

  double area = 0;
  for (const std::int64_t window : shape.layer_windows) area += causal_area(sequence, static_cast<double>(window));

  StepFlops flops;
  flops.learnable_weights = kForwardAndBackward * 2.0 * rows * sequence *
                            (static_cast<double>(shape.layers) * (mlp_weights + attention_weights) + head_weights);
  flops.attention = kForwardAndBackward * kAttentionFlopsPerPair * rows * query_width * area;
  return flops;
}

}  // namespace maxtext
