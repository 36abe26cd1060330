#include "cli/bench/attention_case.h"

#include <cmath>

#include "base/error.h"
#include "cli/bench/gemm_peak.h"

namespace maxtext::bench {

ContextPlan attention_plan(const AttentionSizes& sizes, int context_parallelism, ReorderStrategy reorder) {
  if (sizes.documents > sizes.sequence_length) {
    fail_config("documents={}: a row of {} tokens cannot hold that many", sizes.documents, sizes.sequence_length);
  }
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < sizes.documents; ++i) {
    lengths.push_back(sizes.sequence_length * (i + 1) / sizes.documents - sizes.sequence_length * i / sizes.documents);
  }
  ContextPlanRequest request;
  request.sequence_length = sizes.sequence_length;
  request.document_lengths.assign(static_cast<std::size_t>(sizes.batch), lengths);
  request.attention_types = {AttentionType{.window = sizes.window, .layers = 1}};
  request.context_parallelism = context_parallelism;
  request.reorder = reorder;
  return ContextPlan(std::move(request));
}

AttentionCase::AttentionCase(const AttentionSizes& sizes, const ContextPlan& plan, int context_index, int threads)
    : shape_{.batch = sizes.batch,
             .query_length = plan.slots_per_device(),
             .query_heads = sizes.query_heads,
             .head_dim = sizes.head_dim,
             .devices = plan.context_parallelism(),
             .kv_length = plan.slots_per_device(),
             .group_kv_heads = sizes.kv_heads,
             .kv_heads = sizes.kv_heads,
             .kv_head_begin = 0,
             .scale = 1 / std::sqrt(static_cast<double>(sizes.head_dim))},
      execution_{.threads = threads},
      area_(static_cast<double>(plan.area(0)[static_cast<std::size_t>(context_index)])) {
  if (sizes.query_heads % sizes.kv_heads != 0) {
    fail_config("query_heads={} is not a multiple of kv_heads={}", sizes.query_heads, sizes.kv_heads);
  }
  const std::int64_t queries = shape_.batch * shape_.query_length * shape_.query_heads * shape_.head_dim;
  const std::int64_t keys = shape_.devices * shape_.batch * shape_.kv_length * shape_.kv_heads * shape_.head_dim;
  q_ = random_values(queries, 3);
  d_o_ = random_values(queries, 4);
  k_ = random_values(keys, 5);
  v_ = random_values(keys, 6);
  o_ = dq_ = std::vector<float>(q_.size());
  dk_ = dv_ = std::vector<float>(k_.size());
  logsumexp_.resize(static_cast<std::size_t>(shape_.batch * shape_.query_heads * shape_.query_length));
  for (std::int64_t row = 0; row < sizes.batch; ++row) {
    const auto slots = plan.gathered_slots(row);
    gathered_slots_.insert(gathered_slots_.end(), slots.begin(), slots.end());
    const KeyIntervals intervals = plan.key_intervals(row, context_index, 0);
    key_begin_.insert(key_begin_.end(), intervals.begin.begin(), intervals.begin.end());
    key_end_.insert(key_end_.end(), intervals.end.begin(), intervals.end.end());
  }
}

void AttentionCase::forward() {
  attention_forward(shape_, q_.data(), k_.data(), v_.data(), gathered_slots_.data(), key_begin_.data(), key_end_.data(),
                    o_.data(), logsumexp_.data(), workspace_, execution_);
}

void AttentionCase::backward() {
  attention_backward(shape_, q_.data(), k_.data(), v_.data(), gathered_slots_.data(), key_begin_.data(),
                     key_end_.data(), o_.data(), logsumexp_.data(), d_o_.data(), dq_.data(), dk_.data(), dv_.data(),
                     workspace_, execution_);
}

double AttentionCase::forward_flops() const {
  const double diagonal = static_cast<double>(shape_.batch * shape_.query_length) / 2;
  return 4 * (area_ - diagonal) * static_cast<double>(shape_.query_heads * shape_.head_dim);
}

}  // namespace maxtext::bench
