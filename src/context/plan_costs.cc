#include "context/plan_costs.h"

namespace maxtext {

double attention_forward_flops(double area, const AttentionShape& shape) {
  return 4.0 * area * static_cast<double>(shape.query_heads * shape.head_dim);
}

double attention_backward_flops(double area, const AttentionShape& shape) {
  return 2.5 * attention_forward_flops(area, shape);
}

AttentionFlops attention_flops(const ContextPlan& plan, const AttentionShape& shape) {
  AttentionFlops flops;
  for (const double area : plan.weighted_area()) {
    flops.forward.push_back(attention_forward_flops(area, shape));
    flops.backward.push_back(attention_backward_flops(area, shape));
  }
  return flops;
}

AllGatherBytes all_gather_bytes(const ContextPlan& plan, const AttentionShape& shape) {
  constexpr std::int64_t kFloat32 = 4;
  const std::int64_t elements =
      (plan.context_parallelism() - 1) * plan.rows() * plan.slots_per_device() * shape.kv_heads * shape.head_dim * 2;
  return {elements * shape.bytes_per_element, elements * shape.bytes_per_element, elements * kFloat32};
}

}  // namespace maxtext
