// Attention of a few query rows over a KV cache, over raw memory in any layout. What it computes is the contract of
// ops/decode_attention.h; how, and what was measured, is told in decode_attention.cc and kernels/decode_tiles.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engines/cpu/attention_kernel.h"
#include "engines/cpu/workspace.h"
#include "tensor/dtype.h"

namespace maxtext {

/// Where the rows of K or V lie: element d of (sequence b, KV head h, slot s) at
/// data + b · batch_stride + h · head_stride + s · slot_stride + d, all in elements. A slot's D elements are
/// contiguous.
struct CacheView {
  const std::byte* data = nullptr;
  std::int64_t batch_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t slot_stride = 0;
  /// int8 only: the row's scale at scales + b · scale_batch_stride + h · scale_head_stride + s · scale_slot_stride.
  const float* scales = nullptr;
  std::int64_t scale_batch_stride = 0;
  std::int64_t scale_head_stride = 0;
  std::int64_t scale_slot_stride = 0;
};

/// [B, kv_heads, capacity, D], with scales [B, kv_heads, capacity]: what reads fastest.
CacheView head_major_cache(const std::byte* data, std::int64_t kv_heads, std::int64_t capacity, std::int64_t head_dim,
                           const float* scales = nullptr);
/// [B, capacity, kv_heads, D], with scales [B, capacity, kv_heads].
CacheView slot_major_cache(const std::byte* data, std::int64_t kv_heads, std::int64_t capacity, std::int64_t head_dim,
                           const float* scales = nullptr);

struct DecodeShape {
  std::int64_t batch = 0;
  std::int64_t query_length = 1;  ///< T
  std::int64_t query_heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;  ///< any size; a multiple of 32 wastes nothing
  std::int64_t capacity = 0;
  DType cache_dtype = DType::float32;
  double scale = 1;
  std::int64_t window = 0;
  double softcap = 0;
  bool ring = false;
  bool normalize = true;
  /// Cut at multiples of fixed_decode_chunk positions and nowhere else.
  bool batch_invariant = false;
};
inline constexpr std::int64_t fixed_decode_chunk = 1024;

struct DecodeArrays {
  const float* q = nullptr;  ///< [B, T, query_heads, D]
  CacheView k;
  CacheView v;
  const std::int32_t* start_idx = nullptr;   ///< [B]
  const std::int32_t* kv_seq_len = nullptr;  ///< [B]
  const float* sinks = nullptr;              ///< [query_heads], or null
  float* o = nullptr;                        ///< [B, T, query_heads, D]
  float* l = nullptr;                        ///< [B, query_heads, T]
  float* m = nullptr;                        ///< [B, query_heads, T]
};

/// Throws Error where sizes do not fit together.
void decode_attention(const DecodeShape& shape, const DecodeArrays& arrays, Workspace& workspace,
                      const AttentionExecution& execution = {});

/// Bytes that a call takes of its workspace, whatever its data.
std::int64_t decode_attention_workspace(const DecodeShape& shape, const AttentionExecution& execution = {});

}  // namespace maxtext
