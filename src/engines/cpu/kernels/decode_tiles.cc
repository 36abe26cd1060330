// Compiled once per instruction set; see vec.h.
//
// Cost model: a row of K of D elements is read once and multiplied with W query rows held in L1 (W = 4: a tile). K keys
// that are n / K apart in a block are taken together, so that a load of q serves K products and the hardware
// prefetchers see K long linear streams: K·W accumulators, AVX-512 4 · 4 of 32 registers, AVX2 3 · 4 of 16. Values are
// added the same way: K·W probabilities in registers, each element of o loaded and stored once for K products. Per
// element of the cache that is W FMAs for K and W for V, so float32 is bound by memory and the 16-bit types nearly by
// arithmetic.
#include "engines/cpu/kernels/decode_tiles.h"

#include "engines/cpu/kernels/widen.h"

namespace maxtext::MAXTEXT_ISA {
namespace {

constexpr float infinity = __builtin_huge_valf();
constexpr float log2_e = 1.44269504088896341F;
constexpr bool many_registers = vector_registers == 32;

/// Keys taken together for tiles of W rows.
template <int W>
constexpr int score_streams = W == 4   ? (many_registers ? 4 : 3)
                              : W == 2 ? (many_registers ? 8 : 4)
                                       : 8;
template <int W>
constexpr int value_streams = W == 4 ? (many_registers ? 4 : 3) : 4;

// ---- horizontal sums ------------------------------------------------------------------------------------------------

/// Lane `out` of combine: the vectors hold pieces of `piece` lanes each; the lower (or upper) halves of the first one's
/// pieces, then the second one's.
template <int piece, bool upper>
constexpr int half_of_piece(int out) {
  constexpr int per_vector = lanes<float> / 2;
  constexpr int half = piece / 2;
  const int inside = out % per_vector;
  return out / per_vector * lanes<float> + inside / half * piece + inside % half + (upper ? half : 0);
}
template <int piece, int... out>
[[gnu::always_inline]] inline Vec<float> combine(Vec<float> x, Vec<float> y, std::integer_sequence<int, out...>) {
  return __builtin_shufflevector(x, y, half_of_piece<piece, false>(out)...) +
         __builtin_shufflevector(x, y, half_of_piece<piece, true>(out)...);
}
template <int piece>
[[gnu::always_inline]] inline Vec<float> combine(Vec<float> x, Vec<float> y) {
  return combine<piece>(x, y, std::make_integer_sequence<int, lanes<float>>{});
}
template <int piece>
[[gnu::always_inline]] inline Vec<float> fold(Vec<float> x) {
  if constexpr (piece == 1) {
    return x;
  } else {
    return fold<piece / 2>(combine<piece>(x, x));
  }
}
/// The sum over lanes of x[w] in lane w. Each sum is the tree of reduce_add, whatever W.
template <int W>
[[gnu::always_inline]] inline Vec<float> sums_of(const Vec<float> (&x)[W]) {
  constexpr int all = lanes<float>;
  if constexpr (W == 1) {
    return fold<all>(x[0]);
  } else if constexpr (W == 2) {
    return fold<all / 2>(combine<all>(x[0], x[1]));
  } else {
    static_assert(W == 4);
    return fold<all / 4>(combine<all / 2>(combine<all>(x[0], x[1]), combine<all>(x[2], x[3])));
  }
}
template <int W>
[[gnu::always_inline]] inline void store_first(Vec<float> x, float* to) {
  if constexpr (W == 4) {
    typedef float Four __attribute__((vector_size(16)));
    typedef float Unaligned __attribute__((vector_size(16), aligned(4), may_alias));
    const Four four = __builtin_shufflevector(x, x, 0, 1, 2, 3);
    *reinterpret_cast<Unaligned*>(to) = four;
  } else {
    for (int w = 0; w < W; ++w) to[w] = x[w];
  }
}

/// to[i · step + w] = the sum over lanes of x[i][w]. Where a vector holds four keys of four rows their trees share
/// instructions: 45 instead of 60 on 16 lanes.
template <int K, int W>
[[gnu::always_inline]] inline void store_sums(const Vec<float> (&x)[K][W], float* to, std::int64_t step) {
  if constexpr (K == 4 && W == 4 && lanes<float> == 16) {
    Vec<float> key[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) key[i] = combine<8>(combine<16>(x[i][0], x[i][1]), combine<16>(x[i][2], x[i][3]));
    const Vec<float> all = combine<2>(combine<4>(key[0], key[1]), combine<4>(key[2], key[3]));
    store_first<4>(all, to);
    store_first<4>(rotate<Vec<float>, 4>(all, std::make_integer_sequence<int, 16>{}), to + step);
    store_first<4>(rotate<Vec<float>, 8>(all, std::make_integer_sequence<int, 16>{}), to + 2 * step);
    store_first<4>(rotate<Vec<float>, 12>(all, std::make_integer_sequence<int, 16>{}), to + 3 * step);
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < K; ++i) store_first<W>(sums_of<W>(x[i]), to + i * step);
  }
}

// ---- scores ---------------------------------------------------------------------------------------------------------

/// s = q · k for K keys `distance` bytes apart and W rows; scores[i · step + w]. `tail`: head_dim is no multiple of
/// pair_lanes.
template <typename Row, int W, int K, bool tail>
[[gnu::always_inline]] inline void score_keys(const DecodeRun& run, const float* q, const std::byte* key,
                                              std::int64_t distance, float* scores, std::int64_t step) {
  using Stored = typename Row::Stored;
  const std::int64_t padded_dim = run.padded_dim;
  const std::int64_t whole = tail ? run.head_dim / pair_lanes * pair_lanes : run.head_dim;
  Vec<float> sum[K][W];
#pragma GCC unroll 8
  for (int i = 0; i < K; ++i) {
#pragma GCC unroll 4
    for (int w = 0; w < W; ++w) sum[i][w] = Vec<float>{};
  }
  const auto add = [&](std::int64_t d, auto load_pair) __attribute__((always_inline)) {
    Pair x[K];
#pragma GCC unroll 8
    for (int i = 0; i < K; ++i) x[i] = load_pair(reinterpret_cast<const Stored*>(key + i * distance) + d);
#pragma GCC unroll 4
    for (int w = 0; w < W; ++w) {
      const Vec<float> a = load(q + w * padded_dim + d);
      const Vec<float> b = load(q + w * padded_dim + d + lanes<float>);
#pragma GCC unroll 8
      for (int i = 0; i < K; ++i) sum[i][w] = multiply_add(x[i].a, a, sum[i][w]);
#pragma GCC unroll 8
      for (int i = 0; i < K; ++i) sum[i][w] = multiply_add(x[i].b, b, sum[i][w]);
    }
  };
  for (std::int64_t d = 0; d < whole; d += pair_lanes) {
    add(
        d, [](const Stored* from) __attribute__((always_inline)) { return Row::load_pair(from); });
  }
  if constexpr (tail) {
    const std::int64_t rest = run.head_dim - whole;
    add(
        whole, [&](const Stored* from) __attribute__((always_inline)) { return load_tail<Row>(from, rest); });
  }
  store_sums(sum, scores, step);
}

template <typename Row, int W, bool tail>
void score_all(const DecodeRun& run, const float* q, std::int64_t low, std::int64_t high, float* scores) {
  constexpr int K = score_streams<W>;
  const std::int64_t each = (high - low) / K;
  const std::byte* key = run.k.data + low * run.k.stride;
  for (std::int64_t i = 0; i < each; ++i, key += run.k.stride) {
    score_keys<Row, W, K, tail>(run, q, key, each * run.k.stride, scores + i * W, each * W);
  }
  key += (K - 1) * each * run.k.stride;
  for (std::int64_t i = K * each; i < high - low; ++i, key += run.k.stride) {
    score_keys<Row, W, 1, tail>(run, q, key, 0, scores + i * W, 0);
  }
}

/// factors of int8 rows: values[i · W + w] *= scale of row i.
template <int W>
void scale_rows(const CacheRows& rows, std::int64_t low, std::int64_t high, float* values) {
  for (std::int64_t i = 0; i < high - low; ++i) {
    const float scale = rows.scales[(low + i) * rows.scale_stride];
    for (int w = 0; w < W; ++w) values[i * W + w] *= scale;
  }
}

/// scores[key − low][w] for the keys [low, high).
template <typename Row, int W>
void score_range(const DecodeRun& run, const float* q, std::int64_t low, std::int64_t high, float* scores) {
  if (run.head_dim % pair_lanes == 0) {
    score_all<Row, W, false>(run, q, low, high, scores);
  } else {
    score_all<Row, W, true>(run, q, low, high, scores);
  }
  if (run.k.scales != nullptr) scale_rows<W>(run.k, low, high, scores);
}

// ---- softmax --------------------------------------------------------------------------------------------------------

[[gnu::always_inline]] inline Vec<float> exponential(Vec<float> x) { return exp2_of(x * broadcast(log2_e)); }

/// tanh x = x + x³·P(x²) below 5/8 (Cephes), else 1 − 2 / (exp(2|x|) + 1) with the sign of x.
[[gnu::always_inline]] inline Vec<float> tanh_of(Vec<float> x) {
  const Vec<float> z = x * x;
  Vec<float> p = broadcast(-5.70498872745E-3F);
  p = multiply_add(p, z, broadcast(2.06390887954E-2F));
  p = multiply_add(p, z, broadcast(-5.37397155531E-2F));
  p = multiply_add(p, z, broadcast(1.33314422036E-1F));
  p = multiply_add(p, z, broadcast(-3.33332819422E-1F));
  const Vec<float> small = multiply_add(p * z, x, x);
  const Vec<float> size = x < 0.0F ? -x : x;
  // Beyond 20 the result is 1, and exp2_of has a limit. NaN stays: it takes the other branch.
  const Vec<float> limited = size < 20.0F ? size : broadcast(20.0F);
  const Vec<float> large = 1.0F - 2.0F / (exponential(limited * 2.0F) + 1.0F);
  return size >= 0.625F ? (x < 0.0F ? -large : large) : small;
}

/// combine over the lanes that hold the same row: lanes W apart.
template <int W, int shift, typename Combine>
[[gnu::always_inline]] inline Vec<float> over_keys(Vec<float> value, Combine join) {
  if constexpr (shift < W) {
    return value;
  } else {
    const auto rotated = rotate<Vec<float>, shift>(value, std::make_integer_sequence<int, lanes<float>>{});
    return over_keys<W, shift / 2>(join(value, rotated), join);
  }
}
template <int W>
[[gnu::always_inline]] inline Vec<float> repeat_rows(const float* values) {
  Vec<float> repeated;
  for (int i = 0; i < lanes<float>; ++i) repeated[i] = values[i % W];
  return repeated;
}

/// Turns the scores of `keys` keys into probabilities against the rows' new maximum, and brings m, l and o up to date
/// with it. Room behind the last score up to a whole vector is overwritten.
template <int W>
void softmax(const DecodeRun& run, std::int64_t first_row, std::int64_t keys, float* scores) {
  const std::int64_t count = keys * W;
  const std::int64_t padded = (count + lanes<float> - 1) / lanes<float> * lanes<float>;
  for (std::int64_t i = count; i < padded; ++i) scores[i] = -infinity;
  if (run.softcap > 0) {
    const Vec<float> cap = broadcast(static_cast<float>(run.softcap));
    const Vec<float> inverse = broadcast(static_cast<float>(1 / run.softcap));
    for (std::int64_t i = 0; i < padded; i += lanes<float>) {
      const Vec<float> s = load(scores + i);
      store(scores + i, s == -infinity ? s : cap * tanh_of(s * inverse));
    }
  }
  float* const m = run.m + first_row;
  float* const l = run.l + first_row;
  Vec<float> highest = broadcast(-infinity);
  for (std::int64_t i = 0; i < padded; i += lanes<float>) highest = maximum(load(scores + i), highest);
  highest = over_keys<W, lanes<float> / 2>(highest, [](Vec<float> a, Vec<float> b) { return maximum(a, b); });
  const Vec<float> before = repeat_rows<W>(m);
  const Vec<float> now = maximum(highest, before);
  // Rows that have seen nothing yet stay at −∞: all their probabilities are exp(−∞ − 0) = 0.
  const Vec<float> reference = now == -infinity ? Vec<float>{} : now;
  Vec<float> sum{};
  for (std::int64_t i = 0; i < padded; i += lanes<float>) {
    const Vec<float> p = exponential(load(scores + i) - reference);
    store(scores + i, p);
    sum += p;
  }
  sum = over_keys<W, lanes<float> / 2>(sum, [](Vec<float> a, Vec<float> b) { return a + b; });
  const Vec<float> factor = exponential(before - reference);
  for (int w = 0; w < W; ++w) {
    m[w] = now[w];
    l[w] = l[w] * factor[w] + sum[w];
    if (factor[w] == 1) continue;
    float* const o = run.o + (first_row + w) * run.padded_dim;
    for (std::int64_t d = 0; d < run.padded_dim; d += lanes<float>) store(o + d, load(o + d) * broadcast(factor[w]));
  }
}

// ---- values ---------------------------------------------------------------------------------------------------------

/// o += p · v for K keys `distance` bytes apart and W rows, p[i · step + w].
template <typename Row, int W, int K, bool tail>
[[gnu::always_inline]] inline void add_values(const DecodeRun& run, const std::byte* key, std::int64_t distance,
                                              const float* p, std::int64_t step, float* o) {
  using Stored = typename Row::Stored;
  const std::int64_t padded_dim = run.padded_dim;
  const std::int64_t whole = tail ? run.head_dim / pair_lanes * pair_lanes : run.head_dim;
  Vec<float> weight[K][W];
#pragma GCC unroll 8
  for (int i = 0; i < K; ++i) {
#pragma GCC unroll 4
    for (int w = 0; w < W; ++w) weight[i][w] = broadcast(p[i * step + w]);
  }
  const auto add = [&](std::int64_t d, auto load_pair) __attribute__((always_inline)) {
    Pair x[K];
#pragma GCC unroll 8
    for (int i = 0; i < K; ++i) x[i] = load_pair(reinterpret_cast<const Stored*>(key + i * distance) + d);
#pragma GCC unroll 4
    for (int w = 0; w < W; ++w) {
      float* const to = o + w * padded_dim + d;
      Vec<float> a = load(to);
      Vec<float> b = load(to + lanes<float>);
#pragma GCC unroll 8
      for (int i = 0; i < K; ++i) a = multiply_add(weight[i][w], x[i].a, a);
#pragma GCC unroll 8
      for (int i = 0; i < K; ++i) b = multiply_add(weight[i][w], x[i].b, b);
      store(to, a);
      store(to + lanes<float>, b);
    }
  };
  for (std::int64_t d = 0; d < whole; d += pair_lanes) {
    add(
        d, [](const Stored* from) __attribute__((always_inline)) { return Row::load_pair(from); });
  }
  if constexpr (tail) {
    const std::int64_t rest = run.head_dim - whole;
    add(
        whole, [&](const Stored* from) __attribute__((always_inline)) { return load_tail<Row>(from, rest); });
  }
}

template <typename Row, int W, bool tail>
void add_all(const DecodeRun& run, std::int64_t low, std::int64_t high, const float* p, float* o) {
  constexpr int K = value_streams<W>;
  const std::int64_t each = (high - low) / K;
  const std::byte* key = run.v.data + low * run.v.stride;
  for (std::int64_t i = 0; i < each; ++i, key += run.v.stride) {
    add_values<Row, W, K, tail>(run, key, each * run.v.stride, p + i * W, each * W, o);
  }
  key += (K - 1) * each * run.v.stride;
  for (std::int64_t i = K * each; i < high - low; ++i, key += run.v.stride) {
    add_values<Row, W, 1, tail>(run, key, 0, p + i * W, 0, o);
  }
}

/// The keys [low, high) with probabilities p[key − low][w], which the scales of an int8 cache enter.
template <typename Row, int W>
void add_range(const DecodeRun& run, std::int64_t low, std::int64_t high, float* p, float* o) {
  if (run.v.scales != nullptr) scale_rows<W>(run.v, low, high, p);
  if (run.head_dim % pair_lanes == 0) {
    add_all<Row, W, false>(run, low, high, p, o);
  } else {
    add_all<Row, W, true>(run, low, high, p, o);
  }
}

// ---- tiles ----------------------------------------------------------------------------------------------------------

/// Keys of a block that some row of a tile sees [low, high), and those that all rows see [full_low, full_high). Rows
/// are in ascending position, so the edges hold few keys unless the tile spans many positions.
struct TileKeys {
  std::int64_t low, full_low, full_high, high;
};
[[gnu::always_inline]] inline std::int64_t clamped(std::int64_t value, std::int64_t low, std::int64_t high) {
  return value < low ? low : (value > high ? high : value);
}
template <int W>
[[gnu::always_inline]] inline TileKeys tile_keys(const DecodeRun& run, std::int64_t row, std::int64_t first,
                                                 std::int64_t last) {
  TileKeys keys;
  keys.low = clamped(run.begin[row], first, last);
  keys.high = clamped(run.end[row + W - 1], keys.low, last);
  keys.full_low = clamped(run.begin[row + W - 1], keys.low, keys.high);
  keys.full_high = clamped(run.end[row], keys.full_low, keys.high);
  return keys;
}

/// Visits the keys [low, high) that row r sees outside of the tile's full range, as up to two ranges.
template <typename Visit>
[[gnu::always_inline]] inline void for_edges(const DecodeRun& run, std::int64_t r, const TileKeys& keys, Visit visit) {
  const std::int64_t low = clamped(run.begin[r], keys.low, keys.high);
  const std::int64_t high = clamped(run.end[r], low, keys.high);
  const std::int64_t left_high = high < keys.full_low ? high : keys.full_low;
  if (low < left_high) visit(low, left_high);
  const std::int64_t right_low = low > keys.full_high ? low : keys.full_high;
  if (right_low < high) visit(right_low, high);
}

template <typename Row, int W>
void score_tile(const DecodeRun& run, std::int64_t row, std::int64_t first, std::int64_t last, float* scores) {
  const TileKeys keys = tile_keys<W>(run, row, first, last);
  if (keys.low >= keys.high) return;
  score_range<Row, W>(run, run.q + row * run.padded_dim, keys.full_low, keys.full_high,
                      scores + (keys.full_low - keys.low) * W);
  if constexpr (W > 1) {
    for (std::int64_t i = 0; i < (keys.full_low - keys.low) * W; ++i) scores[i] = -infinity;
    for (std::int64_t i = (keys.full_high - keys.low) * W; i < (keys.high - keys.low) * W; ++i) scores[i] = -infinity;
    for (int w = 0; w < W; ++w) {
      for_edges(run, row + w, keys, [&](std::int64_t low, std::int64_t high) {
        score_range<Row, 1>(run, run.q + (row + w) * run.padded_dim, low, high, run.edge);
        for (std::int64_t key = low; key < high; ++key) scores[(key - keys.low) * W + w] = run.edge[key - low];
      });
    }
  }
  softmax<W>(run, row, keys.high - keys.low, scores);
}

/// A row's values at the edges are added alone: a key that it does not see must not reach it, not even as 0 · NaN.
template <typename Row, int W>
void add_tile(const DecodeRun& run, std::int64_t row, std::int64_t first, std::int64_t last, float* p) {
  const TileKeys keys = tile_keys<W>(run, row, first, last);
  if (keys.low >= keys.high) return;
  if constexpr (W > 1) {
    for (int w = 0; w < W; ++w) {
      for_edges(run, row + w, keys, [&](std::int64_t low, std::int64_t high) {
        for (std::int64_t key = low; key < high; ++key) run.edge[key - low] = p[(key - keys.low) * W + w];
        add_range<Row, 1>(run, low, high, run.edge, run.o + (row + w) * run.padded_dim);
      });
    }
  }
  add_range<Row, W>(run, keys.full_low, keys.full_high, p + (keys.full_low - keys.low) * W,
                    run.o + row * run.padded_dim);
}

/// Calls tile(row, integral constant W) for tiles of 4, 2 and 1 rows.
template <typename Tile>
[[gnu::always_inline]] inline void for_tiles(std::int64_t rows, Tile tile) {
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4) tile(row, std::integral_constant<int, 4>{});
  for (; row + 2 <= rows; row += 2) tile(row, std::integral_constant<int, 2>{});
  for (; row < rows; ++row) tile(row, std::integral_constant<int, 1>{});
}

template <typename Row>
void attend_rows(const DecodeRun& run) {
  const std::int64_t row_scores = decode_score_elements(1, run.block_keys);
  for (std::int64_t first = 0; first < run.keys; first += run.block_keys) {
    const std::int64_t last = clamped(first + run.block_keys, first, run.keys);
    for_tiles(run.rows, [&](std::int64_t row, auto width) {
      score_tile<Row, decltype(width)::value>(run, row, first, last, run.scores + row * row_scores);
    });
    for_tiles(run.rows, [&](std::int64_t row, auto width) {
      add_tile<Row, decltype(width)::value>(run, row, first, last, run.scores + row * row_scores);
    });
  }
}

void attend(DType cache, const DecodeRun& run) {
  switch (cache) {
    case DType::bfloat16:
      return attend_rows<BFloat16Row>(run);
    case DType::float16:
      return attend_rows<Float16Row>(run);
    case DType::int8:
      return attend_rows<Int8Row>(run);
    default:
      return attend_rows<Float32Row>(run);
  }
}

// ---- rows in and out ------------------------------------------------------------------------------------------------

/// Calls visit(i, place of element i in a packed row).
template <bool paired, typename Visit>
[[gnu::always_inline]] inline void for_places(std::int64_t head_dim, Visit visit) {
  for (std::int64_t block = 0; block < head_dim; block += pair_lanes) {
    for (int i = 0; i < pair_lanes && block + i < head_dim; ++i) visit(block + i, block + place_in_pair<paired>(i));
  }
}

void pack_query(DType cache, const float* q, float scale, std::int64_t head_dim, std::int64_t padded_dim,
                float* packed) {
  for (std::int64_t d = 0; d < padded_dim; ++d) packed[d] = 0;
  const auto put = [&](std::int64_t i, std::int64_t place) { packed[place] = scale * q[i]; };
  if (cache == DType::bfloat16) {
    for_places<BFloat16Row::paired>(head_dim, put);
  } else {
    for_places<false>(head_dim, put);
  }
}

void unpack_output(DType cache, const float* o, std::int64_t head_dim, float* natural) {
  const auto put = [&](std::int64_t i, std::int64_t place) { natural[i] = o[place]; };
  if (cache == DType::bfloat16) {
    for_places<BFloat16Row::paired>(head_dim, put);
  } else {
    for_places<false>(head_dim, put);
  }
}

// The formulas of tensor/half.h without branches, so that the loops below become vector code.
[[gnu::always_inline]] inline std::uint16_t to_bfloat16(float value) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x0040U;
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
}

[[gnu::always_inline]] inline std::uint16_t to_float16(float value) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t normal = (magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  // One unit in the last place of 0.5 is float16's smallest subnormal: the addition rounds to a multiple of it.
  const float sum = __builtin_bit_cast(float, magnitude < 0x38800000U ? magnitude : 0U) + 0.5F;
  const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, sum) - 0x3f000000U;
  const std::uint32_t nan = 0x7e00U | ((magnitude >> 13) & 0x3ffU);
  std::uint32_t half = magnitude < 0x38800000U ? subnormal : normal;
  half = magnitude >= 0x47800000U ? 0x7c00U : half;
  half = magnitude > 0x7f800000U ? nan : half;
  return static_cast<std::uint16_t>(half | ((bits >> 16) & 0x8000U));
}

void round_row(DType cache, const float* from, std::int64_t head_dim, std::byte* to) {
  if (cache == DType::bfloat16) {
    auto* const stored = reinterpret_cast<std::uint16_t*>(to);
    for (std::int64_t d = 0; d < head_dim; ++d) stored[d] = to_bfloat16(from[d]);
  } else if (cache == DType::float16) {
    auto* const stored = reinterpret_cast<std::uint16_t*>(to);
    for (std::int64_t d = 0; d < head_dim; ++d) stored[d] = to_float16(from[d]);
  } else {
    __builtin_memcpy(to, from, static_cast<std::size_t>(head_dim) * sizeof(float));
  }
}

float quantize_row(const float* from, std::int64_t head_dim, std::int8_t* to) {
  float largest = 0;
  float not_finite = 0;
  for (std::int64_t d = 0; d < head_dim; ++d) {
    const float size = __builtin_fabsf(from[d]);
    largest = size > largest ? size : largest;
    not_finite += size * 0;
  }
  // Below this the inverse is infinite; such a row is zero to any float32 sum with others.
  constexpr float smallest = 1e-36F;
  const float inverse = largest >= smallest && not_finite == 0 ? 127 / largest : 0;
  for (std::int64_t d = 0; d < head_dim; ++d) {
    constexpr float round = 12582912.0F;  // 1.5 · 2^23: the sum's unit is 1
    const float value = inverse == 0 ? 0 : from[d] * inverse;
    to[d] = static_cast<std::int8_t>(static_cast<std::int32_t>((value + round) - round));
  }
  if (not_finite != 0) return __builtin_nanf("");
  return largest >= smallest ? largest / 127 : 0;
}

}  // namespace

extern const DecodeTiles decode_kernels;
const DecodeTiles decode_kernels = {pack_query, attend, unpack_output, round_row, quantize_row};

}  // namespace maxtext::MAXTEXT_ISA
