// Attention of a few new tokens over a KV cache (flash-decoding). One query head reads the whole cache for a handful of
// products, so this is a matter of reading memory, not of arithmetic: engines cut the keys among all their workers
// (ops/decode_split.h) and merge the parts' states.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_types.h"

namespace maxtext {

/// Inputs
///   q float32 [B, T, query_heads, D], T ≥ 1
///   k, v [B, kv_heads, capacity, D], both float32, bfloat16, float16 or int8
///   start_idx, kv_seq_len int32 [B]
///   k_scale, v_scale float32 [B, kv_heads, capacity], only with an int8 cache: element = scale · stored
///   sinks float32 [query_heads], only with `has_sinks`
///
/// Query row t of T stands at position kv_seq_len − T + t (bottom-right alignment: the last row is the newest token,
/// and its own key is in the cache already) and sees the positions j with
///   max(start_idx, position − window + 1 if window > 0) <= j <= position.
/// Position j lies in slot j, or with `ring` in slot j mod capacity, where positions before kv_seq_len − capacity have
/// been overwritten and are not seen. Without `ring` positions beyond the capacity are not there and not seen, and
/// start_idx and kv_seq_len may be negative or beyond the capacity: a device that holds the positions from p on of a
/// longer cache passes both less p, and all devices' states are merged (ops/merge_states.h). Slots that no row sees are
/// never read: they may hold NaN.
///
/// Query head h reads KV head h / (query_heads / kv_heads). With s_j = softcap(scale · q · k_j), where softcap(s) =
/// softcap · tanh(s / softcap) if softcap > 0:
///   m = max s_j, l = Σ exp(s_j − m), o = Σ exp(s_j − m) · v_j, divided by l with `normalize`.
/// A sink is one more score without a value, in the units of s and after the softcap: it enters m and l. It joins once:
/// where states are to be merged, leave it out here and give it to the merge.
/// Outputs: o float32 [B, T, query_heads, D]; l, m float32 [B, query_heads, T]. A row that sees nothing has o = 0, l =
/// 0, m = −∞ (with a sink l = 1, m = sink). All sums are float32.
///
/// Deterministic for a given number of workers. With `batch_invariant` keys are cut at multiples of a fixed number of
/// positions, and a sequence's result is the same bit for bit whatever shares the batch and however many workers there
/// are, at the price of a balance no finer than such a chunk.
///
/// Contract of jax.experimental.pallas.ops.gpu.decode_attention with residuals, without its limits on lengths and with
/// float32 partial results; window, softcap, sinks and int8 are ours.
struct DecodeAttention {
  static constexpr std::string_view name = "decode_attention";
  double scale = 1;
  std::int64_t window = 0;  ///< keys that a row sees at most, its own included; 0: all
  double softcap = 0;
  bool ring = false;
  bool normalize = true;
  bool batch_invariant = false;
  bool has_sinks = false;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

}  // namespace maxtext
