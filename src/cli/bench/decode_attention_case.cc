#include "cli/bench/decode_attention_case.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "cli/bench/gemm_peak.h"
#include "tensor/half.h"

namespace maxtext::bench {
namespace {

/// One huge page; the engine's memory pool asks for them, too.
constexpr std::int64_t kPage = std::int64_t{2} << 20;

std::int64_t row_bytes(const DecodeShape& shape) {
  return shape.head_dim * dtype_size(shape.cache_dtype) + (shape.cache_dtype == DType::int8 ? 4 : 0);
}

std::int64_t cache_rows(const DecodeShape& shape) { return shape.batch * shape.kv_heads * shape.capacity; }

/// A row of random values as the cache holds it, to be repeated: what is measured is reading.
std::vector<std::byte> random_row(const DecodeShape& shape, std::uint32_t seed) {
  const std::vector<float> values = random_values(shape.head_dim, seed);
  std::vector<std::byte> row(static_cast<std::size_t>(shape.head_dim * dtype_size(shape.cache_dtype)));
  if (shape.cache_dtype != DType::int8) {
    convert_from_float(values, shape.cache_dtype, row);
  } else {
    std::ranges::transform(values, row.begin(),
                           [](float value) { return static_cast<std::byte>(static_cast<std::int8_t>(127 * value)); });
  }
  return row;
}

}  // namespace

void DecodeAttentionCase::Free::operator()(std::byte* pointer) const { std::free(pointer); }

std::int64_t DecodeAttentionCase::positions_for(const DecodeShape& shape, std::int64_t bytes) {
  const std::int64_t position = 2 * shape.batch * shape.kv_heads * row_bytes(shape);
  return std::max<std::int64_t>(1, (bytes + position - 1) / position);
}

double DecodeAttentionCase::cache_bytes() const {
  return static_cast<double>(2 * cache_rows(shape_) * row_bytes(shape_));
}

std::unique_ptr<std::byte, DecodeAttentionCase::Free> DecodeAttentionCase::make_cache(std::uint32_t seed) const {
  const std::int64_t rows = cache_rows(shape_);
  const std::vector<std::byte> pattern = random_row(shape_, seed);
  const auto width = static_cast<std::int64_t>(pattern.size());
  const std::int64_t bytes = (rows * width + kPage - 1) / kPage * kPage;
  std::unique_ptr<std::byte, Free> cache(
      static_cast<std::byte*>(std::aligned_alloc(static_cast<std::size_t>(kPage), static_cast<std::size_t>(bytes))));
  if (cache == nullptr) fail("no memory for a KV cache of {} bytes", bytes);
  madvise(cache.get(), static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
#pragma omp parallel for schedule(static) num_threads(execution_.threads)
  for (std::int64_t row = 0; row < rows; ++row) {
    // Turned by a few elements from row to row, so that scores differ.
    const std::int64_t turn = row % shape_.head_dim * dtype_size(shape_.cache_dtype);
    std::ranges::rotate_copy(pattern, pattern.begin() + turn, cache.get() + row * width);
  }
  return cache;
}

DecodeAttentionCase::DecodeAttentionCase(const DecodeShape& shape, int threads)
    : shape_(shape), execution_{.threads = threads} {
  if (shape_.query_heads % shape_.kv_heads != 0) {
    fail_config("query_heads={} is not a multiple of kv_heads={}", shape_.query_heads, shape_.kv_heads);
  }
  shape_.scale = 1 / std::sqrt(static_cast<double>(shape_.head_dim));
  k_ = make_cache(1);
  v_ = make_cache(2);
  if (shape_.cache_dtype == DType::int8) {
    k_scales_.assign(static_cast<std::size_t>(cache_rows(shape_)), 1.0F / 127);
    v_scales_ = k_scales_;
  }
  q_ = random_values(shape_.batch * shape_.query_length * shape_.query_heads * shape_.head_dim, 3);
  o_ = q_;
  l_.resize(static_cast<std::size_t>(shape_.batch * shape_.query_heads * shape_.query_length));
  m_ = l_;
  start_idx_.assign(static_cast<std::size_t>(shape_.batch), 0);
  kv_seq_len_.assign(static_cast<std::size_t>(shape_.batch), static_cast<std::int32_t>(shape_.capacity));
}

void DecodeAttentionCase::run() {
  const auto view = [&](const std::byte* cache, const std::vector<float>& scales) {
    return head_major_cache(cache, shape_.kv_heads, shape_.capacity, shape_.head_dim,
                            scales.empty() ? nullptr : scales.data());
  };
  decode_attention(shape_,
                   {.q = q_.data(),
                    .k = view(k_.get(), k_scales_),
                    .v = view(v_.get(), v_scales_),
                    .start_idx = start_idx_.data(),
                    .kv_seq_len = kv_seq_len_.data(),
                    .o = o_.data(),
                    .l = l_.data(),
                    .m = m_.data()},
                   workspace_, execution_);
}

}  // namespace maxtext::bench
