// Context parallelism by all-gathered keys and values: queries stay where they are, each device gathers K and V of one
// KV-head group at a time over the context axis and attends to them (Llama 3; MaxText's `all_gather`).
//
// Cost per layer and device, P devices, S tokens, KV bytes b: forward moves 2·(P-1)/P·S·kv_heads·head_dim·b, backward
// the same again plus a reduce_scatter of dK and dV in fp32. The next group travels while this one computes, and no
// more than two groups are held at a time.
#pragma once

#include "autodiff/graph.h"

namespace maxtext {

/// What a layer's attention needs beside q, k and v; constants of the batch.
struct AttentionInputs {
  Variable gathered_slots;  ///< int32 [B, P·T]: original token -> gathered slot
  Variable key_begin;       ///< int32 [B, T]
  Variable key_end;         ///< int32 [B, T]
  /// Visible pairs of one head on this device, all rows: counts FLOPs only.
  double area = 0;
};

/// q [B, T, query_heads, D], k and v [B, T, kv_heads, D] local -> o [B, T, query_heads, D], named `context` for
/// rematerialisation policies. Formula and conventions of ops/attention.h. For a context axis of one it is plain
/// attention without a copy.
Variable all_gather_attention(Variable q, Variable k, Variable v, const AttentionInputs& inputs, double scale);

}  // namespace maxtext
