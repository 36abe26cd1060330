// The parts of decode attention and of writing a KV cache that are compiled once per instruction set. Sources of
// kernels/ are built as told in vec.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engines/cpu/instruction_set.h"
#include "tensor/dtype.h"

namespace maxtext {

/// Packed query and output rows are padded to a multiple of this many elements.
inline constexpr std::int64_t decode_padding = 32;

/// Rows of a cache at equal distances: row i at data + i · stride bytes, and with int8 its scale at scales[i ·
/// scale_stride].
struct CacheRows {
  const std::byte* data = nullptr;
  std::int64_t stride = 0;
  const float* scales = nullptr;
  std::int64_t scale_stride = 0;
};

/// The query rows of one KV head against a run of its keys.
struct DecodeRun {
  std::int64_t rows = 0;
  std::int64_t head_dim = 0;
  std::int64_t padded_dim = 0;
  const float* q = nullptr;  ///< [rows, padded_dim], of pack_queries
  CacheRows k;
  CacheRows v;
  /// Row r sees the keys [begin[r], end[r]) of this run; nothing where end <= begin. Neither array descends.
  const std::int64_t* begin = nullptr;
  const std::int64_t* end = nullptr;
  std::int64_t keys = 0;
  double softcap = 0;
  /// Keys are scored in blocks of this many, all rows, before their values are read.
  std::int64_t block_keys = 0;
  float* scores = nullptr;  ///< scratch of decode_score_elements
  float* edge = nullptr;    ///< scratch of block_keys
  /// The states of the rows, continued: o [rows, padded_dim] in the kernels' order of elements. Empty: 0, 0, −∞.
  float* o = nullptr;
  float* l = nullptr;
  float* m = nullptr;
};

/// Elements of DecodeRun::scores: block_keys a row, and room to round up to a vector.
constexpr std::int64_t decode_score_elements(std::int64_t rows, std::int64_t block_keys) {
  return rows * (block_keys + 16);
}

struct DecodeTiles {
  /// q [head_dim] times `scale` to one packed row of padded_dim elements, in the order that the cache's dtype wants.
  void (*pack_query)(DType cache, const float* q, float scale, std::int64_t head_dim, std::int64_t padded_dim,
                     float* packed);
  /// Adds a run of keys to the rows' states.
  void (*attend)(DType cache, const DecodeRun& run);
  /// One row of o from the kernels' order of elements to the natural one; `natural` is another array.
  void (*unpack_output)(DType cache, const float* o, std::int64_t head_dim, float* natural);
  /// One row rounded to the nearest of `cache`, ties to even: float32, bfloat16, float16.
  void (*round_row)(DType cache, const float* from, std::int64_t head_dim, std::byte* to);
  /// One row as int8; returns its scale (ops/cache_append.h).
  float (*quantize_row)(const float* from, std::int64_t head_dim, std::int8_t* to);
};

/// The kernels of `set`, which the CPU must execute.
const DecodeTiles& decode_tiles(InstructionSet set);

}  // namespace maxtext
