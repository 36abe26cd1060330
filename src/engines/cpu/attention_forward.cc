// Forward attention. Item = (KV head of a batch row, query tile of about 64 rows); K and V are packed once per KV head
// by all threads, then items run largest first, dynamically: an item's result depends on nothing but its rows and keys.
//
// Measured on two Zen 4 cores (causal f32, 8 query heads on 2 KV heads) as a share of oneDNN's sgemm 2048³:
//   AVX-512: D 64 93 / 94 % at S 4096 / 8192, 86 % at 1024, 88 % at 2048; D 128 95 / 94 %, 90 % at 1024
//   AVX2 kernels on the same machine, against the AVX-512 sgemm: D 64 89 / 88 %, D 128 94 / 93 %
//   windows: 512 keys 83 %, 64 keys 45 % (16 positions of a tile and the cut at 16 keys widen 64 keys to 88)
// Tried: 128 rows a tile, 12 × 32 register blocks: equal within the scatter. Copying rows to and from panels with
// scalar loops: 7 points slower at S 1024, 3 at 4096.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "engines/cpu/attention_kernel.h"
#include "engines/cpu/attention_tiling.h"

namespace maxtext {
namespace {

constexpr std::int64_t forward_rows = 64;
/// KV heads are taken in rounds whose packed K and V stay below this, at least one a round.
constexpr std::int64_t round_bytes = std::int64_t{256} << 20;
constexpr std::int64_t pack_unit = 64;

struct Item {
  std::int32_t pair;  ///< b · group_kv_heads + h, counted from the round's first
  std::int32_t tile;
  std::int32_t part;
  std::int32_t keys;
};

template <typename T>
struct Arrays {
  const T* q;
  const T* k;
  const T* v;
  const std::int32_t* gathered_slots;
  const std::int32_t* key_begin;
  const std::int32_t* key_end;
  T* o;
  T* logsumexp;
};

template <typename T>
struct Scratch {
  T *q, *scores, *lanes, *row_stats, *o, *row_max, *row_sum, *factors;
  std::int32_t *key_begin, *key_end;
  const T** from;
  T** to;
};

template <typename T>
class Forward {
 public:
  Forward(const AttentionShape& shape, const Arrays<T>& arrays, const AttentionExecution& execution)
      : shape_(shape),
        arrays_(arrays),
        kernels_(attention_tiles<T>(execution.instruction_set)),
        threads_(execution.threads > 0 ? execution.threads : omp_get_max_threads()),
        tiling_(tile_queries(shape, forward_rows)),
        keys_(shape.devices * shape.kv_length),
        packed_keys_((keys_ + forward_key_tile - 1) / forward_key_tile * forward_key_tile),
        pairs_(shape.batch * shape.group_kv_heads) {
    const std::int64_t pair_bytes = 2 * packed_keys_ * tiling_.depth * static_cast<std::int64_t>(sizeof(T));
    round_pairs_ = std::clamp<std::int64_t>(round_bytes / pair_bytes, 1, pairs_);
  }

  std::int64_t workspace_bytes() {
    Carver measure;
    carve(measure);
    return measure.bytes();
  }

  void run(Workspace& workspace) {
    const Workspace::Lease lease = workspace.take(workspace_bytes());
    Carver cut(lease.data());
    carve(cut);
    find_key_ranges(shape_, tiling_, arrays_.key_begin, arrays_.key_end, ranges_);
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      seen_keys_[b] =
          find_seen_keys(shape_, b, arrays_.key_begin, arrays_.key_end, forward_key_tile, counts_, seen_ + b * keys_);
    }
    for (std::int64_t first = 0; first < pairs_; first += round_pairs_) {
      run_round(first, std::min(round_pairs_, pairs_ - first));
    }
  }

 private:
  void carve(Carver& carver) {
    ranges_ = carver.array<KeyRange>(shape_.batch * tiling_.tiles);
    seen_keys_ = carver.array<SeenKeys>(shape_.batch);
    seen_ = carver.array<std::uint8_t>(shape_.batch * keys_);
    counts_ = carver.array<std::int32_t>(keys_ + 1);
    items_ = carver.array<Item>(round_pairs_ * tiling_.tiles * tiling_.head_parts);
    k_panels_ = carver.array<T>(round_pairs_ * packed_keys_ * tiling_.depth);
    v_tiles_ = carver.array<T>(round_pairs_ * packed_keys_ * tiling_.depth);
    // Each thread's scratch is a block of its own, whole pages apart so that none shares lines or cache sets by rule.
    Carver one;
    carve_scratch(one);
    scratch_bytes_ = one.bytes_per_thread();
    scratch_ = carver.array<std::byte>(threads_ * scratch_bytes_);
  }

  Scratch<T> carve_scratch(Carver& carver) const {
    const std::int64_t rows = tiling_.rows;
    const std::int64_t row_room = (rows + 15) / 16 * 16;
    Scratch<T> scratch;
    scratch.q = carver.array<T>(tiling_.elements());
    scratch.scores = carver.array<T>(scores_stride() * (forward_key_tile / panel_width));
    scratch.lanes = carver.array<T>(2 * rows * panel_width);
    scratch.row_stats = carver.array<T>(2 * row_room);
    scratch.o = carver.array<T>(tiling_.elements());
    scratch.row_max = carver.array<T>(row_room);
    scratch.row_sum = carver.array<T>(row_room);
    scratch.key_begin = carver.array<std::int32_t>(rows);
    scratch.key_end = carver.array<std::int32_t>(rows);
    scratch.factors = carver.array<T>(rows);
    scratch.from = carver.array<const T*>(rows);
    scratch.to = carver.array<T*>(rows);
    return scratch;
  }
  /// Six rows of padding: without them all panels of a row meet in the same cache sets.
  std::int64_t scores_stride() const { return (tiling_.rows + 6) * panel_width; }

  std::int64_t list_items(std::int64_t first_pair, std::int64_t pairs) {
    std::int64_t count = 0;
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const std::int64_t b = (first_pair + pair) / shape_.group_kv_heads;
      for (std::int64_t tile = 0; tile < tiling_.tiles; ++tile) {
        const KeyRange& range = ranges_[b * tiling_.tiles + tile];
        for (std::int64_t part = 0; part < tiling_.head_parts; ++part) {
          items_[count++] = {static_cast<std::int32_t>(pair), static_cast<std::int32_t>(tile),
                             static_cast<std::int32_t>(part), range.high - range.low};
        }
      }
    }
    std::sort(items_, items_ + count, [](const Item& a, const Item& b) { return a.keys > b.keys; });
    return count;
  }

  void run_round(std::int64_t first_pair, std::int64_t pairs) {
    const std::int64_t items = list_items(first_pair, pairs);
    const std::int64_t units = packed_keys_ / pack_unit;
#pragma omp parallel num_threads(threads_)
    {
#pragma omp for schedule(static)
      for (std::int64_t i = 0; i < pairs * units; ++i) pack(first_pair, i / units, i % units * pack_unit);
      Carver carver(scratch_ + omp_get_thread_num() * scratch_bytes_);
      const Scratch<T> scratch = carve_scratch(carver);
#pragma omp for schedule(dynamic, 1)
      for (std::int64_t i = 0; i < items; ++i) run_item(first_pair, items_[i], scratch);
    }
  }

  /// Packs pack_unit keys from `offset` (counted from the first packed key) of K and V.
  void pack(std::int64_t first_pair, std::int64_t pair, std::int64_t offset) {
    const std::int64_t b = (first_pair + pair) / shape_.group_kv_heads;
    const std::int64_t h = (first_pair + pair) % shape_.group_kv_heads;
    const SeenKeys& keys = seen_keys_[b];
    const std::int64_t depth = tiling_.depth;
    T* const k_panels = k_panels_ + pair * packed_keys_ * depth;
    T* const v_tiles = v_tiles_ + pair * packed_keys_ * depth;
    const std::int32_t* const slots = arrays_.gathered_slots + b * keys_;
    const std::uint8_t* const seen = seen_ + b * keys_;
    for (std::int64_t at = offset; at < offset + pack_unit; at += panel_width) {
      const std::int64_t key = keys.low + at;
      if (key >= keys.high) return;
      const std::int64_t inside = at % forward_key_tile;
      const KeyRows<T> k = key_rows(shape_, arrays_.k, b, h, slots, seen, key);
      kernels_.pack_transposed(k.row, shape_.head_dim, k_panels + at * depth);
      const KeyRows<T> v = key_rows(shape_, arrays_.v, b, h, slots, seen, key);
      kernels_.pack_rows(v.row, panel_width, T{1}, shape_.head_dim,
                         v_tiles + (at - inside) * depth + inside * panel_width, forward_key_tile * panel_width);
    }
  }

  void run_item(std::int64_t first_pair, const Item& item, const Scratch<T>& scratch) {
    const std::int64_t b = (first_pair + item.pair) / shape_.group_kv_heads;
    const std::int64_t h = (first_pair + item.pair) % shape_.group_kv_heads;
    const TileRows rows{b, h, item.tile, item.part};
    pack_queries(rows, scratch);
    const KeyRange& range = ranges_[b * tiling_.tiles + item.tile];
    const std::int64_t pair_offset = item.pair * packed_keys_ * tiling_.depth;
    kernels_.forward({.rows = tiling_.rows,
                      .depth = tiling_.depth,
                      .q = scratch.q,
                      .q_stride = tiling_.stride,
                      .softcap = score_units<T>(shape_).softcap,
                      .key_begin = scratch.key_begin,
                      .key_end = scratch.key_end,
                      .key_low = range.low,
                      .key_high = range.high,
                      .full_low = range.full_low,
                      .full_high = range.full_high,
                      .key_base = seen_keys_[b].low,
                      .k_panels = k_panels_ + pair_offset,
                      .v_tiles = v_tiles_ + pair_offset,
                      .scores = scratch.scores,
                      .scores_stride = scores_stride(),
                      .lanes = scratch.lanes,
                      .row_stats = scratch.row_stats,
                      .o = scratch.o,
                      .o_stride = tiling_.stride,
                      .row_max = scratch.row_max,
                      .row_sum = scratch.row_sum});
    write_rows(rows, scratch);
  }

  /// Scaled so that a score needs no further factor before exp2, or before tanh.
  void pack_queries(const TileRows& rows, const Scratch<T>& scratch) {
    for (std::int64_t row = 0; row < tiling_.rows; ++row) {
      scratch.from[row] = nullptr;
      scratch.key_begin[row] = scratch.key_end[row] = 0;
    }
    for_tile_rows(shape_, tiling_, rows, [&](const TileRow& place) {
      const std::int64_t token = rows.b * shape_.query_length + place.slot;
      if (arrays_.key_begin[token] >= arrays_.key_end[token]) return;
      scratch.from[place.row] = arrays_.q + (token * shape_.query_heads + place.head) * shape_.head_dim;
      scratch.key_begin[place.row] = arrays_.key_begin[token];
      scratch.key_end[place.row] = arrays_.key_end[token];
    });
    kernels_.pack_rows(scratch.from, tiling_.rows, score_units<T>(shape_).query, shape_.head_dim, scratch.q,
                       tiling_.stride);
  }

  /// Unpacking adds 0: whether a sum that vanished is −0 or +0 may depend on the keys masked beside it.
  void write_rows(const TileRows& rows, const Scratch<T>& scratch) {
    std::fill(scratch.to, scratch.to + tiling_.rows, nullptr);
    for_tile_rows(shape_, tiling_, rows, [&](const TileRow& place) {
      const std::int64_t token = rows.b * shape_.query_length + place.slot;
      T* const o = arrays_.o + (token * shape_.query_heads + place.head) * shape_.head_dim;
      T& logsumexp = arrays_.logsumexp[(rows.b * shape_.query_heads + place.head) * shape_.query_length + place.slot];
      if (scratch.key_begin[place.row] >= scratch.key_end[place.row]) {
        std::fill(o, o + shape_.head_dim, T{0});
        logsumexp = -std::numeric_limits<T>::infinity();
        return;
      }
      scratch.to[place.row] = o;
      scratch.factors[place.row] = T{1} / scratch.row_sum[place.row];
      logsumexp = static_cast<T>(static_cast<double>(scratch.row_max[place.row]) * std::numbers::ln2 +
                                 std::log(static_cast<double>(scratch.row_sum[place.row])));
    });
    kernels_.unpack_rows(scratch.o, tiling_.stride, tiling_.rows, scratch.factors, shape_.head_dim, scratch.to);
  }

  const AttentionShape& shape_;
  const Arrays<T>& arrays_;
  const AttentionTiles<T>& kernels_;
  int threads_;
  QueryTiling tiling_;
  std::int64_t keys_;
  std::int64_t packed_keys_;
  std::int64_t pairs_;
  std::int64_t round_pairs_ = 1;
  KeyRange* ranges_ = nullptr;
  SeenKeys* seen_keys_ = nullptr;
  std::uint8_t* seen_ = nullptr;
  std::int32_t* counts_ = nullptr;
  Item* items_ = nullptr;
  T* k_panels_ = nullptr;
  T* v_tiles_ = nullptr;
  std::byte* scratch_ = nullptr;
  std::int64_t scratch_bytes_ = 0;
};

template <typename T>
void forward(const AttentionShape& shape, const Arrays<T>& arrays, Workspace& workspace,
             const AttentionExecution& execution) {
  check_shape(shape);
  check_indices(shape, arrays.gathered_slots, arrays.key_begin, arrays.key_end);
  Forward<T>(shape, arrays, execution).run(workspace);
}

template <typename T>
std::int64_t workspace_bytes(const AttentionShape& shape, const AttentionExecution& execution) {
  check_shape(shape);
  return Forward<T>(shape, Arrays<T>{}, execution).workspace_bytes();
}

}  // namespace

std::int64_t attention_forward_workspace(const AttentionShape& shape, DType dtype,
                                         const AttentionExecution& execution) {
  return dtype == DType::float64 ? workspace_bytes<double>(shape, execution) : workspace_bytes<float>(shape, execution);
}

void attention_forward(const AttentionShape& shape, const float* q, const float* k, const float* v,
                       const std::int32_t* gathered_slots, const std::int32_t* key_begin, const std::int32_t* key_end,
                       float* o, float* logsumexp, Workspace& workspace, const AttentionExecution& execution) {
  forward<float>(shape, {q, k, v, gathered_slots, key_begin, key_end, o, logsumexp}, workspace, execution);
}

void attention_forward(const AttentionShape& shape, const double* q, const double* k, const double* v,
                       const std::int32_t* gathered_slots, const std::int32_t* key_begin, const std::int32_t* key_end,
                       double* o, double* logsumexp, Workspace& workspace, const AttentionExecution& execution) {
  forward<double>(shape, {q, k, v, gathered_slots, key_begin, key_end, o, logsumexp}, workspace, execution);
}

}  // namespace maxtext
