// The arrays of a chunk of a prompt: which slots hold which keys, and which of them a query sees.
#pragma once

#include <cstdint>
#include <vector>

#include "inference/kv_cache.h"

namespace maxtext {

/// Host values of a PrefillStep (attention/cached_attention.h).
struct PrefillArrays {
  std::int32_t position = 0;
  std::vector<std::int32_t> slots;
  std::vector<std::int32_t> key_begin;
  std::vector<std::int32_t> key_end;
  double area = 0;
};

/// Of a chunk of `tokens` positions from `first` on, in a cache without window that device `rank` of `group_size`
/// shares. Slots are read up to the last one in use, rounded up to `granule` so that shapes are few, within `capacity`.
PrefillArrays full_prefill_arrays(std::int64_t first, std::int64_t tokens, std::int64_t capacity, std::int64_t page,
                                  int rank, int group_size);

/// Of the same chunk in a ring of `window` positions: keys are the ring's, oldest first, followed by the chunk's own,
/// which lie behind the ring's slots.
PrefillArrays ring_prefill_arrays(std::int64_t first, std::int64_t tokens, std::int64_t window);

/// `arrays` as those of `tokens` queries on `keys` keys, where there were fewer: the queries that come on top see what
/// the last one sees, so that they compute finite numbers, and the keys that do are seen by nobody. FLOPs are counted
/// as before.
PrefillArrays padded(PrefillArrays arrays, std::int64_t tokens, std::int64_t keys);

}  // namespace maxtext
