// The merge of attention over parts of the keys, which makes split-K, a KV cache sharded over devices, prefill beside
// decode and shared prefixes exact.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_types.h"

namespace maxtext {

/// Inputs: n states of the same queries over disjoint keys, as an all_gather leaves them
///   o float32 [n, B, T, query_heads, D], unnormalised: Σ exp(s_j − m) · v_j
///   l, m float32 [n, B, query_heads, T]
///   sinks float32 [query_heads], only with `has_sinks`
/// With M = max m_i and c_i = exp(m_i − M):
///   l = Σ c_i · l_i, m = M, o = Σ c_i · o_i, divided by l with `normalize`.
/// A sink joins as one more state with m = sink, l = 1, o = 0: give it to the last merge only.
/// Outputs: o float32 [B, T, query_heads, D]; l, m float32 [B, query_heads, T].
///
/// States come from DecodeAttention with normalize = false. A normalised output with its logsumexp (AttentionForward)
/// is a state too: l = 1, m = logsumexp. A state with l = 0 or m = −∞ is empty, the identity of the merge: its o is not
/// read and may hold NaN. With normalize = false the result is a state again, and merging is associative up to
/// rounding. Where all are empty o = 0, l = 0, m = −∞. Sums run in ascending i.
struct MergeStates {
  static constexpr std::string_view name = "merge_states";
  bool normalize = true;
  bool has_sinks = false;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

}  // namespace maxtext
