#include <algorithm>

#include "engines/cpu/kernels/decode_tiles.h"
#include "engines/cpu/run.h"
#include "ops/cache_append.h"

namespace maxtext {
namespace {

struct Rows {
  const float* from;
  std::int64_t stride;  ///< from one new row to the next
  std::byte* cache;     ///< of one KV head of one sequence
  float* scales;        ///< likewise; null without
  std::int64_t capacity;
  std::int64_t head_dim;
  DType dtype;
};

void write_row(const DecodeTiles& kernels, const Rows& rows, std::int64_t t, std::int64_t slot) {
  const float* const from = rows.from + t * rows.stride;
  std::byte* const to = rows.cache + slot * rows.head_dim * dtype_size(rows.dtype);
  if (rows.scales == nullptr) {
    kernels.round_row(rows.dtype, from, rows.head_dim, to);
  } else {
    rows.scales[slot] = kernels.quantize_row(from, rows.head_dim, reinterpret_cast<std::int8_t*>(to));
  }
}

}  // namespace

void run(CpuContext& /*context*/, const CacheAppend& op, Inputs inputs, Outputs outputs) {
  const Shape& cache = outputs[0].shape();
  const std::int64_t length = inputs[1].dim(1);
  const bool quantized = outputs[0].dtype() == DType::int8;
  const auto* const position = data<std::int32_t>(inputs[2]);
  const auto* const counts = op.has_rows ? data<std::int32_t>(inputs[quantized ? 4 : 3]) : nullptr;
  const DecodeTiles& kernels = decode_tiles(active_instruction_set());
  const std::int64_t head_bytes = cache[2] * cache[3] * dtype_size(outputs[0].dtype());
  const std::int64_t pairs = cache[0] * cache[1];
  // A head's rows are written by one thread in order, so that the last of those that meet in a slot stays.
#pragma omp parallel for schedule(static) if (pairs * length * cache[3] > 16384)
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const std::int64_t b = pair / cache[1];
    const Rows rows{.from = data<float>(inputs[1]) + (b * length * cache[1] + pair % cache[1]) * cache[3],
                    .stride = cache[1] * cache[3],
                    .cache = data<std::byte>(outputs[0]) + pair * head_bytes,
                    .scales = quantized ? data<float>(outputs[1]) + pair * cache[2] : nullptr,
                    .capacity = cache[2],
                    .head_dim = cache[3],
                    .dtype = outputs[0].dtype()};
    const std::int64_t count = counts == nullptr ? length : std::clamp<std::int64_t>(counts[b], 0, length);
    const std::int64_t first = op.ring ? std::max<std::int64_t>(0, count - rows.capacity) : 0;
    for (std::int64_t t = first; t < count; ++t) {
      const std::int64_t at = position[b] + t;
      if (at < 0 || (!op.ring && at >= rows.capacity)) continue;
      write_row(kernels, rows, t, at % rows.capacity);
    }
  }
}

}  // namespace maxtext
