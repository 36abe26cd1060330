// Context parallelism by all-gathered keys and values: queries stay where they are, each device gathers K and V of one
// KV-head group at a time over the context axis and attends to them (Llama 3; MaxText's `all_gather`).
//
// Cost per layer and device, P devices, S tokens, KV bytes b: forward moves 2·(P-1)/P·S·kv_heads·head_dim·b, backward
// the same again plus a reduce_scatter of dK and dV in fp32. The next group travels while this one computes, and no
// more than two groups are held at a time.
#pragma once

#include <vector>

#include "attention/layer_attention.h"

namespace maxtext {

/// What a layer's attention needs beside q, k and v; constants of the batch.
struct AttentionInputs {
  Variable gathered_slots;  ///< int32 [B, P·T]: original token -> gathered slot
  Variable key_begin;       ///< int32 [B, T]
  Variable key_end;         ///< int32 [B, T]
  /// Visible pairs of one head on this device, all rows: counts FLOPs only.
  double area = 0;
};

/// K and V of a layer, local, in groups of KV heads; the gather of the first group is under way.
struct KeyValueGroups {
  std::vector<Variable> keys;    ///< [B, T, heads, D] each, at most eight
  std::vector<Variable> values;  ///< likewise
  Variable gathered_keys;        ///< [P, B, T, heads, D], of the first group
  Variable gathered_values;
};

/// Splits k and v [B, T, kv_heads, D] into groups and starts to gather the first. What is recorded between this and
/// the attention (the query projection) runs while it travels, and backward of it while the last gradients of k and v
/// are reduced. For a context axis of one there is one group, and no copy is made.
KeyValueGroups gather_keys_and_values(Variable k, Variable v);

/// q [B, T, query_heads, D] local, with the keys and values of `groups` -> o [B, T, query_heads, D], named `context`
/// for rematerialisation policies. Formula and conventions of ops/attention.h.
Variable all_gather_attention(Variable q, const KeyValueGroups& groups, const AttentionInputs& inputs,
                              const AttentionScores& scores);

/// The two as a layer's attention.
class AllGatherAttention final : public LayerAttention {
 public:
  explicit AllGatherAttention(const AttentionInputs& inputs) : inputs_(inputs) {}
  void begin(Variable k, Variable v) override { groups_ = gather_keys_and_values(k, v); }
  Variable attend(Variable q, const AttentionScores& scores) override {
    return all_gather_attention(q, groups_, inputs_, scores);
  }

 private:
  AttentionInputs inputs_;
  KeyValueGroups groups_;
};

}  // namespace maxtext
