// A decode step in double precision by the formula, and the kernel's run of it over a cache in which everything that no
// query sees is poison.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "cpu/device.h"
#include "engines/cpu/decode_kernel.h"
#include "tensor/half.h"

namespace maxtext::testing {

/// Values by position, [B, kv_heads, positions, D]. What the kernel gets of them is decided by the shape's capacity,
/// ring and dtype.
struct DecodeProblem {
  DecodeShape shape;
  std::vector<std::int32_t> start_idx;
  std::vector<std::int32_t> kv_seq_len;
  std::int64_t positions = 0;
  std::vector<float> q{};
  std::vector<float> k{};
  std::vector<float> v{};
  std::vector<float> sinks{};  ///< empty: none
};

struct DecodeResult {
  std::vector<float> o, l, m;
};

enum class CacheLayout { head_major, slot_major };

/// One row as the cache holds it, in floats. int8 by the contract of ops/cache_append.h.
struct StoredRow {
  std::vector<std::byte> bytes;
  float scale = 1;
  std::vector<float> values;
};
inline StoredRow store_row(DType dtype, std::span<const float> row) {
  StoredRow stored;
  stored.bytes.resize(row.size() * static_cast<std::size_t>(dtype_size(dtype)));
  stored.values.resize(row.size());
  if (dtype != DType::int8) {
    convert_from_float(row, dtype, stored.bytes);
    convert_to_float(stored.bytes, dtype, stored.values);
    return stored;
  }
  float largest = 0;
  for (const float x : row) largest = std::max(largest, std::abs(x));
  stored.scale = largest / 127;
  for (std::size_t d = 0; d < row.size(); ++d) {
    const float level = largest == 0 ? 0 : std::nearbyint(row[d] * (127 / largest));
    stored.bytes[d] = static_cast<std::byte>(static_cast<std::int8_t>(level));
    stored.values[d] = level * stored.scale;
  }
  return stored;
}

/// Random queries, keys and values with scores of a few units, and lengths as given.
inline DecodeProblem decode_problem(DecodeShape shape, std::vector<std::int32_t> start_idx,
                                    std::vector<std::int32_t> kv_seq_len, unsigned seed = 1) {
  shape.batch = static_cast<std::int64_t>(kv_seq_len.size());
  DecodeProblem x{.shape = shape, .start_idx = std::move(start_idx), .kv_seq_len = std::move(kv_seq_len)};
  x.positions = std::max<std::int64_t>(1, *std::ranges::max_element(x.kv_seq_len));
  if (x.shape.capacity == 0) x.shape.capacity = x.positions;
  x.shape.scale = 1.5 / std::sqrt(static_cast<double>(shape.head_dim));
  x.q = random_values<float>(shape.batch * shape.query_length * shape.query_heads * shape.head_dim, seed);
  const std::int64_t rows = shape.batch * shape.kv_heads * x.positions;
  x.k = random_values<float>(rows * shape.head_dim, seed + 1);
  x.v = random_values<float>(rows * shape.head_dim, seed + 2);
  return x;
}

/// Positions that query row t of sequence b sees, by the contract of ops/decode_attention.h.
inline bool sees(const DecodeProblem& x, std::int64_t b, std::int64_t t, std::int64_t j) {
  const auto at = static_cast<std::size_t>(b);
  const std::int64_t length = x.kv_seq_len[at];
  const std::int64_t position = length - x.shape.query_length + t;
  if (j < 0 || j < x.start_idx[at] || j > position) return false;
  if (x.shape.window > 0 && j <= position - x.shape.window) return false;
  return x.shape.ring ? j >= length - x.shape.capacity : j < x.shape.capacity;
}

inline std::span<const float> position_row(const DecodeProblem& x, const std::vector<float>& values, std::int64_t b,
                                           std::int64_t h, std::int64_t j) {
  const std::int64_t D = x.shape.head_dim;
  return std::span(values).subspan(static_cast<std::size_t>(((b * x.shape.kv_heads + h) * x.positions + j) * D),
                                   static_cast<std::size_t>(D));
}

/// All of `values` as the cache holds them.
inline std::vector<float> stored_values(const DecodeProblem& x, const std::vector<float>& values) {
  const auto width = static_cast<std::size_t>(x.shape.head_dim);
  std::vector<float> stored;
  for (std::size_t row = 0; row < values.size(); row += width) {
    const StoredRow one = store_row(x.shape.cache_dtype, std::span(values).subspan(row, width));
    stored.insert(stored.end(), one.values.begin(), one.values.end());
  }
  return stored;
}

/// The formula, in double, over the values as the cache holds them.
inline DecodeResult expected_result(const DecodeProblem& x) {
  const DecodeShape& s = x.shape;
  const std::int64_t group = s.query_heads / s.kv_heads;
  const std::vector<float> stored_k = stored_values(x, x.k);
  const std::vector<float> stored_v = stored_values(x, x.v);
  DecodeResult result{std::vector<float>(x.q.size(), 0),
                      std::vector<float>(static_cast<std::size_t>(s.batch * s.query_heads * s.query_length)),
                      {}};
  result.m = result.l;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.query_heads; ++h) {
      for (std::int64_t t = 0; t < s.query_length; ++t) {
        const auto q = static_cast<std::size_t>(((b * s.query_length + t) * s.query_heads + h) * s.head_dim);
        std::vector<double> scores;
        std::vector<std::int64_t> seen;
        for (std::int64_t j = 0; j < x.positions; ++j) {
          if (!sees(x, b, t, j)) continue;
          const std::span<const float> k = position_row(x, stored_k, b, h / group, j);
          double score = 0;
          for (std::size_t d = 0; d < k.size(); ++d) score += static_cast<double>(x.q[q + d]) * k[d];
          score *= s.scale;
          if (s.softcap > 0) score = s.softcap * std::tanh(score / s.softcap);
          scores.push_back(score);
          seen.push_back(j);
        }
        double highest = -std::numeric_limits<double>::infinity();
        for (const double score : scores) highest = std::max(highest, score);
        double sum = 0;
        if (!x.sinks.empty()) {
          highest = std::max<double>(highest, x.sinks[static_cast<std::size_t>(h)]);
          sum = std::exp(x.sinks[static_cast<std::size_t>(h)] - highest);
        }
        std::vector<double> o(static_cast<std::size_t>(s.head_dim), 0);
        for (std::size_t i = 0; i < seen.size(); ++i) {
          const double p = std::exp(scores[i] - highest);
          sum += p;
          const std::span<const float> v = position_row(x, stored_v, b, h / group, seen[i]);
          for (std::size_t d = 0; d < o.size(); ++d) o[d] += p * v[d];
        }
        const auto residual = static_cast<std::size_t>((b * s.query_heads + h) * s.query_length + t);
        result.l[residual] = static_cast<float>(sum);
        result.m[residual] = static_cast<float>(highest);
        for (std::size_t d = 0; d < o.size(); ++d) {
          result.o[q + d] = static_cast<float>(s.normalize && sum > 0 ? o[d] / sum : o[d]);
        }
      }
    }
  }
  return result;
}

/// The cache's memory: NaN (int8: NaN scales) wherever no query row looks.
class PoisonedCache {
 public:
  PoisonedCache(const DecodeProblem& x, const std::vector<float>& values, CacheLayout layout) : layout_(layout) {
    const DecodeShape& s = x.shape;
    const std::int64_t rows = s.batch * s.kv_heads * s.capacity;
    const std::int64_t bytes = s.head_dim * dtype_size(s.cache_dtype);
    // All bits set are NaN in each of the floating-point types.
    bytes_.assign(static_cast<std::size_t>(rows * bytes), std::byte{0xff});
    scales_.assign(static_cast<std::size_t>(rows), std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t j = 0; j < x.positions; ++j) {
        bool seen = false;
        for (std::int64_t t = 0; t < s.query_length; ++t) seen = seen || sees(x, b, t, j);
        if (!seen) continue;
        for (std::int64_t h = 0; h < s.kv_heads; ++h) {
          const std::int64_t slot = j % s.capacity;
          const std::int64_t row = layout == CacheLayout::head_major ? (b * s.kv_heads + h) * s.capacity + slot
                                                                     : (b * s.capacity + slot) * s.kv_heads + h;
          const StoredRow stored = store_row(s.cache_dtype, position_row(x, values, b, h, j));
          std::memcpy(bytes_.data() + row * bytes, stored.bytes.data(), static_cast<std::size_t>(bytes));
          scales_[static_cast<std::size_t>(row)] = stored.scale;
        }
      }
    }
  }

  CacheView view(const DecodeShape& s) const {
    const float* const scales = s.cache_dtype == DType::int8 ? scales_.data() : nullptr;
    return layout_ == CacheLayout::head_major
               ? head_major_cache(bytes_.data(), s.kv_heads, s.capacity, s.head_dim, scales)
               : slot_major_cache(bytes_.data(), s.kv_heads, s.capacity, s.head_dim, scales);
  }

 private:
  CacheLayout layout_;
  std::vector<std::byte> bytes_;
  std::vector<float> scales_;
};

inline DecodeResult run_decode(const DecodeProblem& x, const AttentionExecution& execution,
                               CacheLayout layout = CacheLayout::head_major) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const DecodeShape& s = x.shape;
  DecodeResult result{std::vector<float>(x.q.size(), nan),
                      std::vector<float>(static_cast<std::size_t>(s.batch * s.query_heads * s.query_length), nan),
                      {}};
  result.m = result.l;
  const PoisonedCache k(x, x.k, layout);
  const PoisonedCache v(x, x.v, layout);
  Workspace workspace;
  decode_attention(s,
                   {.q = x.q.data(),
                    .k = k.view(s),
                    .v = v.view(s),
                    .start_idx = x.start_idx.data(),
                    .kv_seq_len = x.kv_seq_len.data(),
                    .sinks = x.sinks.empty() ? nullptr : x.sinks.data(),
                    .o = result.o.data(),
                    .l = result.l.data(),
                    .m = result.m.data()},
                   workspace, execution);
  return result;
}

/// The largest |o − expected| / max |expected|, |l − expected| / expected and |m − expected|; infinite where empty rows
/// differ.
struct DecodeErrors {
  double o = 0;
  double l = 0;
  double m = 0;
};
inline DecodeErrors decode_errors(const DecodeResult& actual, const DecodeResult& expected) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  DecodeErrors errors;
  double largest = 0;
  for (std::size_t i = 0; i < expected.o.size(); ++i) {
    const double difference = std::abs(static_cast<double>(actual.o[i]) - expected.o[i]);
    errors.o = difference <= errors.o ? errors.o : (std::isnan(difference) ? infinity : difference);
    largest = std::max(largest, std::abs(static_cast<double>(expected.o[i])));
  }
  if (largest > 0) errors.o /= largest;
  for (std::size_t i = 0; i < expected.l.size(); ++i) {
    if (expected.l[i] == 0) {
      const bool empty = actual.l[i] == 0 && actual.m[i] == -std::numeric_limits<float>::infinity();
      if (!empty) errors.l = errors.m = infinity;
      continue;
    }
    const double l = std::abs(static_cast<double>(actual.l[i]) - expected.l[i]) / expected.l[i];
    const double m = std::abs(static_cast<double>(actual.m[i]) - expected.m[i]);
    errors.l = l <= errors.l ? errors.l : (std::isnan(l) ? infinity : l);
    errors.m = m <= errors.m ? errors.m : (std::isnan(m) ? infinity : m);
  }
  return errors;
}

inline void expect_close(const DecodeResult& actual, const DecodeResult& expected, const std::string& what) {
  const DecodeErrors errors = decode_errors(actual, expected);
  EXPECT_LE(errors.o, 1e-5) << what;
  EXPECT_LE(errors.l, 1e-5) << what;
  EXPECT_LE(errors.m, 1e-5) << what;
}

}  // namespace maxtext::testing
