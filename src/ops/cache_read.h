// Reading keys or values back from a KV cache, for the kernels that take whole tiles of float32 (a prompt's chunks).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/op_types.h"

namespace maxtext {

/// Inputs
///   cache [1, kv_heads, capacity, D] in float32, bfloat16, float16 or int8
///   scales float32 [1, kv_heads, capacity], only with an int8 cache: element = scale · stored
/// Output: slots [0, length) of one KV head as float32 [1, 1, length, 1, D], the shape of an attention over one
/// device's keys (ops/attention.h). Of a float32 cache it is a view; others are converted, length · D elements, which a
/// chunk of T queries of G heads pays back in 4 · T · G · length · D FLOPs.
struct CacheRead {
  static constexpr std::string_view name = "cache_read";
  std::int64_t kv_head = 0;
  std::int64_t length = 0;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

}  // namespace maxtext
