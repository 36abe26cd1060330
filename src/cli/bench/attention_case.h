// Attention of one device on random queries, keys and values.
#pragma once

#include <cstdint>
#include <vector>

#include "context/context_plan.h"
#include "engines/cpu/attention_kernel.h"

namespace maxtext::bench {

struct AttentionSizes {
  std::int64_t batch = 1;
  std::int64_t sequence_length = 0;
  std::int64_t query_heads = 8;
  std::int64_t kv_heads = 2;
  std::int64_t head_dim = 64;
  /// Keys that a query sees at most; 0: all earlier ones.
  std::int64_t window = 0;
  /// Documents of (nearly) equal length in each row.
  std::int64_t documents = 1;
};

/// The plan of such rows. Throws ConfigError for more documents than tokens.
ContextPlan attention_plan(const AttentionSizes& sizes, int context_parallelism = 1,
                           ReorderStrategy reorder = ReorderStrategy::none);

class AttentionCase {
 public:
  /// The queries of device `context_index` of `plan` against the keys of all devices.
  AttentionCase(const AttentionSizes& sizes, const ContextPlan& plan, int context_index, int threads);

  void forward();
  /// Of the last forward.
  void backward();

  /// 4 · area · query_heads · head_dim, where half of each query's own key is counted, so that one document comes to
  /// S²/2.
  double forward_flops() const;
  /// 2.5 times forward.
  double backward_flops() const { return 2.5 * forward_flops(); }
  std::int64_t workspace_bytes() const { return workspace_.bytes(); }

 private:
  AttentionShape shape_;
  AttentionExecution execution_;
  double area_;
  Workspace workspace_;
  std::vector<float> q_, d_o_, k_, v_, o_, dq_, dk_, dv_, logsumexp_;
  std::vector<std::int32_t> gathered_slots_, key_begin_, key_end_;
};

}  // namespace maxtext::bench
