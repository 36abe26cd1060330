// Compiled once per instruction set; see vec.h.
#include "engines/cpu/kernels/attention_tiles.h"

#include "engines/cpu/kernels/panel_gemm.h"
#include "engines/cpu/kernels/row_copies.h"

namespace maxtext::MAXTEXT_ISA {
namespace {

template <typename T>
constexpr T infinity = static_cast<T>(__builtin_huge_val());

/// Where each vector of a block lies: row m + i, column 16·n + lane.
template <typename T>
constexpr std::int64_t column_of(int vector) {
  return vector / panel_vectors<T> * panel_width + vector % panel_vectors<T> * lanes<T>;
}
template <typename T>
[[gnu::always_inline]] inline T* place_of(T* matrix, std::int64_t stride, std::int64_t m, std::int64_t n, int vector) {
  return matrix + (n + vector / panel_vectors<T>)*stride + m * panel_width + vector % panel_vectors<T> * lanes<T>;
}

/// `score` where the row sees the key, `other` elsewhere.
template <typename T>
[[gnu::always_inline]] inline Vec<T> where_visible(Vec<T> score, std::int64_t first_key, std::int32_t key_begin,
                                                   std::int32_t key_end, T other) {
  using Int = typename VecTypes<T>::Int;
  const IntVec<T> key = indices_from<T>(first_key);
  const IntVec<T> visible = (key >= static_cast<Int>(key_begin)) & (key < static_cast<Int>(key_end));
  return visible ? score : broadcast(other);
}

template <typename T, int MR, int NV>
[[gnu::always_inline]] inline void set_zero(Vec<T> (&sum)[MR][NV]) {
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < NV; ++j) sum[i][j] = Vec<T>{};
  }
}

/// s = q·kᵀ, or softcap·tanh(q·kᵀ), stored, with the maximum of each row and lane.
template <typename T, bool masked, bool capped>
struct ScoreOp {
  const ForwardTile<T>& tile;
  T* scores;
  T* lane_max;
  std::int64_t first_key;

  template <int MR, int NV>
  [[gnu::always_inline]] void begin(std::int64_t, std::int64_t, Vec<T> (&sum)[MR][NV]) const {
    set_zero<T>(sum);
  }
  template <int MR, int NV>
  [[gnu::always_inline]] void end(std::int64_t m, std::int64_t n, Vec<T> (&sum)[MR][NV]) const {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      Vec<T> highest = load(lane_max + (m + i) * lanes<T>);
#pragma GCC unroll 16
      for (int j = 0; j < NV; ++j) {
        if constexpr (capped) sum[i][j] = broadcast(tile.softcap) * tanh_of(sum[i][j]);
        if constexpr (masked) {
          sum[i][j] = where_visible<T>(sum[i][j], first_key + n * panel_width + column_of<T>(j), tile.key_begin[m + i],
                                       tile.key_end[m + i], -infinity<T>);
        }
        store(place_of(scores, tile.scores_stride, m + i, n, j), sum[i][j]);
        highest = maximum(sum[i][j], highest);
      }
      store(lane_max + (m + i) * lanes<T>, highest);
    }
  }
};

/// o = o·factor + p·v
template <typename T>
struct OutputOp {
  T* o;
  std::int64_t stride;
  const T* factor;

  template <int MR, int NV>
  [[gnu::always_inline]] void begin(std::int64_t m, std::int64_t n, Vec<T> (&sum)[MR][NV]) const {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 16
      for (int j = 0; j < NV; ++j) sum[i][j] = load(place_of(o, stride, m + i, n, j)) * broadcast(factor[m + i]);
    }
  }
  template <int MR, int NV>
  [[gnu::always_inline]] void end(std::int64_t m, std::int64_t n, Vec<T> (&sum)[MR][NV]) const {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 16
      for (int j = 0; j < NV; ++j) store(place_of(o, stride, m + i, n, j), sum[i][j]);
    }
  }
};

/// c += a·b, or c = a·b when `fresh`.
template <typename T>
struct AddOp {
  T* c;
  std::int64_t stride;
  bool fresh;

  template <int MR, int NV>
  [[gnu::always_inline]] void begin(std::int64_t m, std::int64_t n, Vec<T> (&sum)[MR][NV]) const {
    if (fresh) {
      set_zero<T>(sum);
      return;
    }
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 16
      for (int j = 0; j < NV; ++j) sum[i][j] = load(place_of(c, stride, m + i, n, j));
    }
  }
  template <int MR, int NV>
  [[gnu::always_inline]] void end(std::int64_t m, std::int64_t n, Vec<T> (&sum)[MR][NV]) const {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 16
      for (int j = 0; j < NV; ++j) store(place_of(c, stride, m + i, n, j), sum[i][j]);
    }
  }
};

/// p = exp2(q·kᵀ − logsumexp), or, capped, exp2(softcap·tanh(q·kᵀ) − logsumexp) with `damped`.
template <typename T, bool masked, bool capped>
struct ProbabilityOp {
  const BackwardTile<T>& tile;
  std::int64_t offset;  ///< of first_key's panel in p and damped
  std::int64_t first_key;

  template <int MR, int NV>
  [[gnu::always_inline]] void begin(std::int64_t, std::int64_t, Vec<T> (&sum)[MR][NV]) const {
    set_zero<T>(sum);
  }
  template <int MR, int NV>
  [[gnu::always_inline]] void end(std::int64_t m, std::int64_t n, Vec<T> (&sum)[MR][NV]) const {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const Vec<T> logsumexp = broadcast(tile.logsumexp[m + i]);
#pragma GCC unroll 16
      for (int j = 0; j < NV; ++j) {
        Vec<T> score = sum[i][j];
        Vec<T> slope;
        if constexpr (capped) {
          const Vec<T> tangent = tanh_of(score);
          score = broadcast(tile.softcap) * tangent;
          slope = multiply_add(-tangent, tangent, broadcast(T{1}));
        }
        Vec<T> value = exp2_of(score - logsumexp);
        if constexpr (masked) {
          value = where_visible<T>(value, first_key + n * panel_width + column_of<T>(j), tile.key_begin[m + i],
                                   tile.key_end[m + i], T{0});
        }
        store(place_of(tile.p + offset, tile.p_stride, m + i, n, j), value);
        if constexpr (capped) store(place_of(tile.damped + offset, tile.p_stride, m + i, n, j), value * slope);
      }
    }
  }
};

/// ds = p·(do·vᵀ − Δ), over p; capped with damped in p's place.
template <typename T, bool capped>
struct ScoreGradientOp {
  const BackwardTile<T>& tile;

  template <int MR, int NV>
  [[gnu::always_inline]] void begin(std::int64_t, std::int64_t, Vec<T> (&sum)[MR][NV]) const {
    set_zero<T>(sum);
  }
  template <int MR, int NV>
  [[gnu::always_inline]] void end(std::int64_t m, std::int64_t n, Vec<T> (&sum)[MR][NV]) const {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const Vec<T> delta = broadcast(tile.delta[m + i]);
#pragma GCC unroll 16
      for (int j = 0; j < NV; ++j) {
        const T* const from = place_of(capped ? tile.damped : tile.p, tile.p_stride, m + i, n, j);
        store(place_of(tile.p, tile.p_stride, m + i, n, j), load(from) * (sum[i][j] - delta));
      }
    }
  }
};

struct KeyParts {
  std::int64_t low, full_low, full_high, high;
};
/// [low, high) cut where all rows begin and cease to see every key.
inline KeyParts cut(std::int64_t low, std::int64_t high, std::int64_t full_low, std::int64_t full_high) {
  full_low = full_low < low ? low : full_low > high ? high : full_low;
  full_high = full_high > high ? high : full_high < full_low ? full_low : full_high;
  return {low, full_low, full_high, high};
}

template <typename T, bool masked, bool capped>
void scores_of(const ForwardTile<T>& tile, std::int64_t tile_low, std::int64_t low, std::int64_t high) {
  if (low >= high) return;
  const Operands<T> operands{tile.rows,
                             (high - low) / panel_width,
                             tile.depth,
                             tile.q,
                             tile.q_stride,
                             tile.k_panels + (low - tile.key_base) * tile.depth,
                             tile.depth * panel_width};
  T* const scores = tile.scores + (low - tile_low) / panel_width * tile.scores_stride;
  multiply_by_panels<T, Left::panels>(operands, ScoreOp<T, masked, capped>{tile, scores, tile.lanes, low});
}

/// The scores of the tile that begins at `parts.low`.
template <typename T, bool capped>
void all_scores_of(const ForwardTile<T>& tile, const KeyParts& parts) {
  scores_of<T, true, capped>(tile, parts.low, parts.low, parts.full_low);
  scores_of<T, false, capped>(tile, parts.low, parts.full_low, parts.full_high);
  scores_of<T, true, capped>(tile, parts.low, parts.full_high, parts.high);
}

/// Folds the tile's maximum into the running one; leaves exp2(old − new) in `factor` and the maximum to subtract,
/// 0 for rows that have seen nothing yet, in `subtract`.
template <typename T>
void update_maximum(const ForwardTile<T>& tile, T* subtract, T* factor) {
  for (std::int64_t r = 0; r < tile.rows; ++r) subtract[r] = reduce_max<T>(load(tile.lanes + r * lanes<T>));
  for (std::int64_t r = 0; r < tile.rows; r += lanes<T>) {
    const Vec<T> old = load(tile.row_max + r);
    const Vec<T> highest = maximum(load(subtract + r), old);
    const Vec<T> shift = highest == broadcast(-infinity<T>) ? Vec<T>{} : highest;
    store(factor + r, exp2_of(old - shift));
    store(subtract + r, shift);
    store(tile.row_max + r, highest);
  }
}

/// p = exp2(s − maximum) in place for four rows, and the sums per lane.
template <typename T>
void exponentials(const ForwardTile<T>& tile, std::int64_t row, std::int64_t panels, const T* subtract,
                  const T* factor) {
  T* const lane_sum = tile.lanes + tile.rows * panel_width;
  Vec<T> shift[4];
  Vec<T> sum[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    shift[i] = broadcast(subtract[row + i]);
    sum[i] = Vec<T>{};
  }
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    T* const place = tile.scores + panel * tile.scores_stride + row * panel_width;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < panel_vectors<T>; ++j) {
        const Vec<T> p = exp2_of(load(place + i * panel_width + j * lanes<T>) - shift[i]);
        store(place + i * panel_width + j * lanes<T>, p);
        sum[i] += p;
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    T* const place = lane_sum + (row + i) * lanes<T>;
    store(place, multiply_add(load(place), broadcast(factor[row + i]), sum[i]));
  }
}

/// Rows that are exponentiated and multiplied together, so that p is still in L1 when it meets v.
template <typename T>
constexpr std::int64_t strip_rows = block_rows<T> == 6  ? 12
                                    : block_rows<T> > 4 ? block_rows<T>
                                                        : 4;

template <typename T>
void forward_key_tile_step(const ForwardTile<T>& tile, std::int64_t low, std::int64_t high) {
  for (std::int64_t i = 0; i < tile.rows * lanes<T>; i += lanes<T>) store(tile.lanes + i, broadcast(-infinity<T>));
  const KeyParts parts = cut(low, high, tile.full_low, tile.full_high);
  if (tile.softcap == 0) {
    all_scores_of<T, false>(tile, parts);
  } else {
    all_scores_of<T, true>(tile, parts);
  }

  T* const subtract = tile.row_stats;
  T* const factor = tile.row_stats + (tile.rows + 15) / 16 * 16;
  update_maximum(tile, subtract, factor);

  const std::int64_t offset = low - tile.key_base;
  const std::int64_t inside = offset % forward_key_tile;
  const T* const v = tile.v_tiles + (offset - inside) * tile.depth + inside * panel_width;
  for (std::int64_t row = 0; row < tile.rows; row += strip_rows<T>) {
    const std::int64_t rows = tile.rows - row < strip_rows<T> ? tile.rows - row : strip_rows<T>;
    for (std::int64_t r = row; r < row + rows; r += 4) {
      exponentials(tile, r, (high - low) / panel_width, subtract, factor);
    }
    const Operands<T> operands{
        rows, tile.depth / panel_width,      high - low, tile.scores + row * panel_width, tile.scores_stride,
        v,    forward_key_tile * panel_width};
    multiply_by_rows<T, Left::panels>(operands, OutputOp<T>{tile.o + row * panel_width, tile.o_stride, factor + row});
  }
}

template <typename T>
void forward(const ForwardTile<T>& tile) {
  T* const lane_sum = tile.lanes + tile.rows * panel_width;
  for (std::int64_t i = 0; i < tile.rows * lanes<T>; ++i) lane_sum[i] = 0;
  for (std::int64_t r = 0; r < (tile.rows + 15) / 16 * 16; ++r) tile.row_max[r] = -infinity<T>;
  for (std::int64_t panel = 0; panel < tile.depth / panel_width; ++panel) {
    for (std::int64_t i = 0; i < tile.rows * panel_width; ++i) tile.o[panel * tile.o_stride + i] = 0;
  }
  for (std::int64_t low = tile.key_low; low < tile.key_high;) {
    const std::int64_t border = (low / forward_key_tile + 1) * forward_key_tile;
    const std::int64_t high = border < tile.key_high ? border : tile.key_high;
    forward_key_tile_step(tile, low, high);
    low = high;
  }
  for (std::int64_t r = 0; r < tile.rows; ++r) tile.row_sum[r] = reduce_add<T>(load(lane_sum + r * lanes<T>));
}

template <typename T, bool masked, bool capped>
void probabilities(const BackwardTile<T>& tile, std::int64_t low, std::int64_t high) {
  if (low >= high) return;
  const Operands<T> operands{tile.rows,
                             (high - low) / panel_width,
                             tile.depth,
                             tile.q,
                             tile.q_stride,
                             tile.k_panels + (low - tile.key_low) * tile.depth,
                             tile.depth * panel_width};
  const std::int64_t offset = (low - tile.key_low) / panel_width * tile.p_stride;
  multiply_by_panels<T, Left::panels>(operands, ProbabilityOp<T, masked, capped>{tile, offset, low});
}

/// c[key] += Σ_row p[row][key] · b[row]
template <typename T>
void add_transposed(const BackwardTile<T>& tile, const T* b, T* c) {
  for (std::int64_t panel = 0; panel < tile.key_panels; ++panel) {
    const Operands<T> operands{panel_width,  tile.depth / panel_width, tile.rows, tile.p + panel * tile.p_stride, 0, b,
                               tile.q_stride};
    multiply_by_panels<T, Left::transposed>(operands,
                                            AddOp<T>{c + panel * panel_width * panel_width, tile.key_stride, false});
  }
}

template <typename T, bool capped>
void backward_of(const BackwardTile<T>& tile) {
  const std::int64_t high = tile.key_low + tile.key_panels * panel_width;
  const KeyParts parts = cut(tile.key_low, high, tile.full_low, tile.full_high);
  probabilities<T, true, capped>(tile, parts.low, parts.full_low);
  probabilities<T, false, capped>(tile, parts.full_low, parts.full_high);
  probabilities<T, true, capped>(tile, parts.full_high, parts.high);
  add_transposed(tile, tile.d_o, tile.dv);
  multiply_by_panels<T, Left::panels>(Operands<T>{tile.rows, tile.key_panels, tile.depth, tile.d_o, tile.q_stride,
                                                  tile.v_panels, tile.depth * panel_width},
                                      ScoreGradientOp<T, capped>{tile});
  add_transposed(tile, tile.q, tile.dk);
  multiply_by_rows<T, Left::panels>(Operands<T>{tile.rows, tile.depth / panel_width, tile.key_panels * panel_width,
                                                tile.p, tile.p_stride, tile.k_rows, tile.key_stride},
                                    AddOp<T>{tile.dq, tile.q_stride, tile.dq_is_new});
}

template <typename T>
void backward(const BackwardTile<T>& tile) {
  if (tile.softcap == 0) {
    backward_of<T, false>(tile);
  } else {
    backward_of<T, true>(tile);
  }
}

template <typename T>
constexpr AttentionTiles<T> all_of() {
  return {forward<T>, backward<T>, pack_rows<T>, pack_transposed<T>, unpack_rows<T>, row_dots<T>, add<T>};
}

}  // namespace

extern const AttentionTiles<float> float_attention_tiles;
const AttentionTiles<float> float_attention_tiles = all_of<float>();
extern const AttentionTiles<double> double_attention_tiles;
const AttentionTiles<double> double_attention_tiles = all_of<double>();

}  // namespace maxtext::MAXTEXT_ISA
