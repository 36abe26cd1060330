// The attention core. What a query may see is an interval of keys in original token order, which covers causality,
// windows, packed documents and padding at once (context/context_plan.h makes the intervals). Keys lie wherever an
// all_gather left them, and `gathered_slots` says where: kernels walk keys in ascending original order whatever the
// number of devices, so the forward of every context parallelism is bitwise that of one device.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_types.h"

namespace maxtext {

/// Inputs
///   q [B, T, query_heads, D]
///   k, v [P, B, T_kv, heads, D]: gathered from P devices; these are KV heads kv_head_begin … +heads of kv_heads
///   gathered_slots int32 [B, P·T_kv]: for original token j, its place p·T_kv + t
///   key_begin, key_end int32 [B, T]: query i sees original tokens key_begin[i] <= j < key_end[i]
///   (optional) o [B, T, query_heads, D], logsumexp [B, query_heads, T]: written in place for the heads of this group
/// Outputs o and logsumexp. Query head h reads KV head h / (query_heads / kv_heads). With s = scale · q · kᵀ, or with
/// `softcap` s = softcap · tanh(scale · q · kᵀ / softcap) (Gemma 2; Bello et al. 2016):
///   logsumexp = log Σ exp(s), o = Σ exp(s − logsumexp) · v; a query without keys has o = 0, logsumexp = −∞.
/// Keys outside every interval are never read: padding may hold NaN. Normalised outputs with their logsumexp are the
/// associative, empty-safe states that merging needs (flash-decoding; FlashInfer's AttentionState).
struct AttentionForward {
  static constexpr std::string_view name = "attention_forward";
  double scale = 1;
  double softcap = 0;  ///< 0: none, at no cost
  std::int64_t kv_heads = 1;
  std::int64_t kv_head_begin = 0;
  /// Visible (query, key) pairs of one head on this device, from the plan: counts FLOPs, has no effect on results.
  double area = 0;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
  double flops(InputSpecs inputs) const;
};

/// Inputs: q, k, v, gathered_slots, key_begin, key_end as above, then o, logsumexp, do [B, T, query_heads, D], and
/// optionally dq [B, T, query_heads, D] to be written in place for the heads of this group.
/// Outputs: dq; dk, dv [P, B, T_kv, heads, D] in the accumulation dtype, zero where no query looked.
///   Δ = rowsum(do ∘ o); p = exp(s − logsumexp); dv = pᵀ·do; ds = p ∘ (do·vᵀ − Δ)·scale; dq = ds·k; dk = dsᵀ·q
/// With `softcap`, ds is multiplied by 1 − (s/softcap)² as well.
/// Deterministic: sums are ordered by shapes, never by the number of threads (FlashAttention-2's one pass with five
/// GEMMs a tile; dq partials per key group are added in group order).
struct AttentionBackward {
  static constexpr std::string_view name = "attention_backward";
  double scale = 1;
  double softcap = 0;  ///< 0: none, at no cost
  std::int64_t kv_heads = 1;
  std::int64_t kv_head_begin = 0;
  double area = 0;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
  double flops(InputSpecs inputs) const;
};

}  // namespace maxtext
