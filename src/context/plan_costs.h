// What a plan costs in arithmetic and on the wire. Numbers follow from the plan and the shapes of attention alone.
#pragma once

#include <cstdint>
#include <vector>

#include "context/context_plan.h"

namespace maxtext {

/// The part of attention that one device of the tensor axis holds.
struct AttentionShape {
  std::int64_t query_heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 1;
  /// Of gathered keys and values: 4 for float32, 2 for bfloat16. Their gradients are reduced in float32.
  std::int64_t bytes_per_element = 4;
};

/// Floating point operations of attention's score and value products over `area` visible pairs: forward
/// 4 · area · query_heads · head_dim; backward 2.5 times that (five products instead of two).
double attention_forward_flops(double area, const AttentionShape& shape);
double attention_backward_flops(double area, const AttentionShape& shape);

/// Both for all layers (Σ layers · area), per device of the context axis.
struct AttentionFlops {
  std::vector<double> forward;
  std::vector<double> backward;
};
AttentionFlops attention_flops(const ContextPlan& plan, const AttentionShape& shape);

/// Logical bytes of the `all_gather` strategy per layer and device, as the communicator counts them: what one device
/// sends with an ideal algorithm, (cp - 1) times its own part, keys and values together:
/// (cp - 1) · rows · slots_per_device · kv_heads · head_dim · 2 · bytes. Padding slots are sent too.
struct AllGatherBytes {
  std::int64_t forward_all_gather = 0;
  std::int64_t backward_all_gather = 0;      ///< gathered again rather than kept
  std::int64_t backward_reduce_scatter = 0;  ///< gradients of keys and values, float32
};
AllGatherBytes all_gather_bytes(const ContextPlan& plan, const AttentionShape& shape);

}  // namespace maxtext
