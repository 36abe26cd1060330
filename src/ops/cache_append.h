// Writing new keys or values into a KV cache.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_types.h"

namespace maxtext {

/// Inputs
///   cache [B, kv_heads, capacity, D] in float32, bfloat16, float16 or int8; donated, written in place
///   new rows float32 [B, T, kv_heads, D]
///   position int32 [B]: of row 0; row t stands at position + t
///   scales float32 [B, kv_heads, capacity], only with an int8 cache; donated, written in place
///   rows int32 [B], only with `has_rows`: of sequence b only the first rows[b] of the T are written (uneven prompts)
/// Outputs: the cache, and the scales of an int8 cache.
///
/// Row t goes to slot position + t, or with `ring` to slot (position + t) mod capacity; of rows that meet in a slot the
/// last one stays. Without `ring` a row whose position lies outside [0, capacity) is dropped: the host cannot look at
/// positions, so the caller keeps count; and a device that holds a part of a longer cache passes its positions less the
/// part's first, so that each row is kept by its owner only. Negative positions are dropped with `ring`, too.
/// Values are rounded to the cache's dtype, ties to even. int8: scale = max |x| / 127 of a row of D, stored =
/// round(x / scale); a row with NaN or infinity has the scale NaN, so that it cannot pass for a number.
struct CacheAppend {
  static constexpr std::string_view name = "cache_append";
  bool ring = false;
  bool has_rows = false;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

}  // namespace maxtext
