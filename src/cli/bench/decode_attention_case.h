// A decode step's attention over a cache of random values.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engines/cpu/decode_kernel.h"

namespace maxtext::bench {

class DecodeAttentionCase {
 public:
  /// `shape.batch` sequences, all of `shape.capacity` positions, in a cache [B, kv_heads, capacity, D].
  DecodeAttentionCase(const DecodeShape& shape, int threads);

  void run();

  /// Bytes of K, V and their scales.
  double cache_bytes() const;

  /// Positions such that a cache of `shape` holds at least `bytes`.
  static std::int64_t positions_for(const DecodeShape& shape, std::int64_t bytes);

 private:
  struct Free {
    void operator()(std::byte* pointer) const;
  };
  /// One of K and V, filled by the team so that memory lies near the thread that reads it.
  std::unique_ptr<std::byte, Free> make_cache(std::uint32_t seed) const;

  DecodeShape shape_;
  AttentionExecution execution_;
  Workspace workspace_;
  std::unique_ptr<std::byte, Free> k_, v_;
  std::vector<float> k_scales_, v_scales_, q_, o_, l_, m_;
  std::vector<std::int32_t> start_idx_, kv_seq_len_;
};

}  // namespace maxtext::bench
