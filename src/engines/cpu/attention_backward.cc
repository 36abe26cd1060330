// Backward attention in one pass of five GEMMs a tile, KV-major (FlashAttention-2's order): dK and dV of a key tile
// stay in a thread's L2 while query tiles pass; dQ is summed per *key group* and the groups are added at the end. Item
// = (KV head of a batch row, key group). The number of groups and which tiles are theirs come from shapes and
// intervals, never from the number of threads, and every sum is ordered: results are reproducible bit for bit.
//
// Measured as in attention_forward.cc, 2.5 × the forward's FLOPs:
//   AVX-512: D 64 96 / 96 % at S 4096 / 8192, 88 % at 1024, 92 % at 2048; D 128 96 / 96 %, 90 % at 1024
//   AVX2 kernels: D 64 97 / 96 %, D 128 99 / 99 %
//   windows: 512 keys 82 %, 64 keys 47 %
// Tried: 512-key tiles or 128-row tiles: 0 to 3 points better at D 64 and 128, within the scatter, for twice the cache;
// 512 leaves too few tiles to deal below S 2048. Workspace: 58 / 114 MiB at S 4096, D 64 / 128, linear in S.
#include <omp.h>

#include <algorithm>
#include <limits>
#include <numbers>
#include <numeric>

#include "engines/cpu/attention_kernel.h"
#include "engines/cpu/attention_tiling.h"

namespace maxtext {
namespace {

constexpr std::int64_t backward_rows = 64;
constexpr std::int64_t key_tile = 256;
/// Items wanted at least, from which the groups per KV head follow, and groups at most: each costs a dQ buffer.
constexpr std::int64_t wanted_items = 16;
constexpr std::int64_t most_groups = 4;
/// KV heads are taken in rounds whose workspace stays below this, at least one a round.
constexpr std::int64_t round_bytes = std::int64_t{512} << 20;

template <typename T>
struct Arrays {
  const T* q;
  const T* k;
  const T* v;
  const std::int32_t* gathered_slots;
  const std::int32_t* key_begin;
  const std::int32_t* key_end;
  const T* o;
  const T* logsumexp;
  const T* d_o;
  T* dq;
  T* dk;
  T* dv;
};

template <typename T>
class Backward {
 public:
  Backward(const AttentionShape& shape, const Arrays<T>& arrays, const AttentionExecution& execution)
      : shape_(shape),
        arrays_(arrays),
        kernels_(attention_tiles<T>(execution.instruction_set)),
        threads_(execution.threads > 0 ? execution.threads : omp_get_max_threads()),
        tiling_(tile_queries(shape, backward_rows)),
        keys_(shape.devices * shape.kv_length),
        key_tiles_((keys_ + key_tile - 1) / key_tile),
        packed_keys_(key_tiles_ * key_tile),
        pairs_(shape.batch * shape.group_kv_heads),
        query_tiles_(tiling_.tiles * tiling_.head_parts) {
    groups_ = std::min({(wanted_items + pairs_ - 1) / pairs_, most_groups, key_tiles_});
    const std::int64_t pair_elements =
        3 * packed_keys_ * tiling_.depth + (2 + groups_) * query_tiles_ * tiling_.elements();
    round_pairs_ =
        std::clamp<std::int64_t>(round_bytes / (pair_elements * static_cast<std::int64_t>(sizeof(T))), 1, pairs_);
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
          find_seen_keys(shape_, b, arrays_.key_begin, arrays_.key_end, key_tile, counts_, seen_ + b * keys_);
      deal_key_tiles(b);
    }
    for (std::int64_t first = 0; first < pairs_; first += round_pairs_) {
      run_round(first, std::min(round_pairs_, pairs_ - first));
    }
  }

 private:
  struct Scratch {
    T *p, *damped, *dk, *dv, *factors;
    const T **q_rows, **d_o_rows, **o_rows;
    T **dq_rows, **dk_rows, **dv_rows;
  };

  void carve(Carver& carver) {
    const std::int64_t rows = round_pairs_ * query_tiles_ * tiling_.rows;
    const std::int64_t packed_queries = round_pairs_ * query_tiles_ * tiling_.elements();
    const std::int64_t packed_keys = round_pairs_ * packed_keys_ * tiling_.depth;
    ranges_ = carver.array<KeyRange>(shape_.batch * tiling_.tiles);
    seen_keys_ = carver.array<SeenKeys>(shape_.batch);
    seen_ = carver.array<std::uint8_t>(shape_.batch * keys_);
    counts_ = carver.array<std::int32_t>(keys_ + 1);
    areas_ = carver.array<std::int64_t>(key_tiles_);
    group_of_ = carver.array<std::int8_t>(shape_.batch * key_tiles_);
    loads_ = carver.array<std::int64_t>(shape_.batch * groups_);
    items_ = carver.array<std::int32_t>(round_pairs_ * groups_);
    dq_written_ = carver.array<std::uint8_t>(round_pairs_ * groups_ * query_tiles_);
    key_begin_ = carver.array<std::int32_t>(rows);
    key_end_ = carver.array<std::int32_t>(rows);
    logsumexp_ = carver.array<T>(rows);
    delta_ = carver.array<T>(rows);
    k_panels_ = carver.array<T>(packed_keys);
    v_panels_ = carver.array<T>(packed_keys);
    k_rows_ = carver.array<T>(packed_keys);
    q_ = carver.array<T>(packed_queries);
    d_o_ = carver.array<T>(packed_queries);
    dq_ = carver.array<T>(groups_ * packed_queries);
    Carver one;
    carve_scratch(one);
    scratch_bytes_ = one.bytes_per_thread();
    scratch_ = carver.array<std::byte>(threads_ * scratch_bytes_);
  }

  Scratch carve_scratch(Carver& carver) const {
    Scratch scratch;
    scratch.p = carver.array<T>(p_stride() * (key_tile / panel_width));
    scratch.damped = shape_.softcap == 0 ? nullptr : carver.array<T>(p_stride() * (key_tile / panel_width));
    scratch.dk = carver.array<T>(key_tile * tiling_.depth);
    scratch.dv = carver.array<T>(key_tile * tiling_.depth);
    const std::int64_t room = std::max(key_tile, tiling_.rows);
    scratch.factors = carver.array<T>(room);
    scratch.q_rows = carver.array<const T*>(room);
    scratch.d_o_rows = carver.array<const T*>(room);
    scratch.o_rows = carver.array<const T*>(room);
    scratch.dq_rows = carver.array<T*>(room);
    scratch.dk_rows = carver.array<T*>(room);
    scratch.dv_rows = carver.array<T*>(room);
    return scratch;
  }
  std::int64_t p_stride() const { return (tiling_.rows + 6) * panel_width; }

  /// Deals the key tiles of a batch row to groups: the largest area first, always to the group with the least.
  void deal_key_tiles(std::int64_t b) {
    std::int8_t* const group_of = group_of_ + b * key_tiles_;
    for (std::int64_t i = 0; i < key_tiles_; ++i) {
      areas_[i] = 0;
      group_of[i] = -1;
    }
    for (std::int64_t tile = 0; tile < tiling_.tiles; ++tile) {
      const KeyRange& range = ranges_[b * tiling_.tiles + tile];
      for (std::int64_t low = range.low; low < range.high;) {
        const std::int64_t i = low / key_tile;
        const std::int64_t high = std::min<std::int64_t>((i + 1) * key_tile, range.high);
        areas_[i - seen_keys_[b].low / key_tile] += high - low;
        low = high;
      }
    }
    std::int64_t* const load = loads_ + b * groups_;
    std::fill(load, load + groups_, 0);
    for (std::int64_t dealt = 0; dealt < key_tiles_; ++dealt) {
      std::int64_t largest = -1;
      for (std::int64_t i = 0; i < key_tiles_; ++i) {
        if (group_of[i] < 0 && (largest < 0 || areas_[i] > areas_[largest])) largest = i;
      }
      const std::int64_t* const least = std::min_element(load, load + groups_);
      load[least - load] += areas_[largest];
      group_of[largest] = static_cast<std::int8_t>(least - load);
    }
  }

  void run_round(std::int64_t first_pair, std::int64_t pairs) {
    const std::int64_t units = packed_keys_ / panel_width;
    const std::int64_t written = pairs * groups_ * query_tiles_;
    std::fill(dq_written_, dq_written_ + written, std::uint8_t{0});
    order_items(first_pair, pairs);
#pragma omp parallel num_threads(threads_)
    {
      Carver carver(scratch_ + omp_get_thread_num() * scratch_bytes_);
      const Scratch scratch = carve_scratch(carver);
#pragma omp for schedule(static) nowait
      for (std::int64_t i = 0; i < pairs * units; ++i) pack_keys(first_pair, i / units, i % units * panel_width);
#pragma omp for schedule(static) nowait
      for (std::int64_t i = 0; i < pairs * units; ++i) zero_unseen(first_pair + i / units, i % units * panel_width);
#pragma omp for schedule(static)
      for (std::int64_t i = 0; i < pairs * query_tiles_; ++i) pack_queries(first_pair, i, scratch);
#pragma omp for schedule(dynamic, 1)
      for (std::int64_t i = 0; i < pairs * groups_; ++i) {
        run_item(first_pair, items_[i] / groups_, items_[i] % groups_, scratch);
      }
#pragma omp for schedule(static)
      for (std::int64_t i = 0; i < pairs * query_tiles_; ++i) sum_groups(first_pair, i, scratch);
    }
  }

  /// Items pair·groups + group, the largest first; only the schedule depends on it.
  void order_items(std::int64_t first_pair, std::int64_t pairs) {
    const auto load_of = [&](std::int32_t item) {
      return loads_[batch_of(first_pair + item / groups_) * groups_ + item % groups_];
    };
    std::iota(items_, items_ + pairs * groups_, 0);
    std::sort(items_, items_ + pairs * groups_,
              [&](std::int32_t a, std::int32_t b) { return load_of(a) > load_of(b); });
  }

  std::int64_t batch_of(std::int64_t pair) const { return pair / shape_.group_kv_heads; }
  std::int64_t head_of(std::int64_t pair) const { return pair % shape_.group_kv_heads; }

  void pack_keys(std::int64_t first_pair, std::int64_t pair, std::int64_t at) {
    const std::int64_t b = batch_of(first_pair + pair);
    const std::int64_t h = head_of(first_pair + pair);
    const std::int64_t key = seen_keys_[b].low + at;
    if (key >= seen_keys_[b].high) return;
    const std::int64_t depth = tiling_.depth;
    const std::int64_t offset = pair * packed_keys_ * depth;
    const std::int64_t inside = at % key_tile;
    const std::int32_t* const slots = arrays_.gathered_slots + b * keys_;
    const std::uint8_t* const seen = seen_ + b * keys_;
    const KeyRows<T> k = key_rows(shape_, arrays_.k, b, h, slots, seen, key);
    kernels_.pack_transposed(k.row, shape_.head_dim, k_panels_ + offset + at * depth);
    kernels_.pack_rows(k.row, panel_width, T{1}, shape_.head_dim,
                       k_rows_ + offset + (at - inside) * depth + inside * panel_width, key_tile * panel_width);
    const KeyRows<T> v = key_rows(shape_, arrays_.v, b, h, slots, seen, key);
    kernels_.pack_transposed(v.row, shape_.head_dim, v_panels_ + offset + at * depth);
  }

  void zero_unseen(std::int64_t pair, std::int64_t first_key) {
    const std::int64_t b = batch_of(pair);
    const std::int64_t last_key = std::min(first_key + panel_width, keys_);
    for (std::int64_t key = first_key; key < last_key; ++key) {
      if (seen_[b * keys_ + key] != 0) continue;
      const std::int64_t place = key_offset(shape_, b, head_of(pair), arrays_.gathered_slots[b * keys_ + key]);
      std::fill(arrays_.dk + place, arrays_.dk + place + shape_.head_dim, T{0});
      std::fill(arrays_.dv + place, arrays_.dv + place + shape_.head_dim, T{0});
    }
  }

  TileRows rows_of(std::int64_t first_pair, std::int64_t i) const {
    const std::int64_t pair = first_pair + i / query_tiles_;
    const std::int64_t query_tile = i % query_tiles_;
    return {batch_of(pair), head_of(pair), query_tile / tiling_.head_parts, query_tile % tiling_.head_parts};
  }

  /// q and do of a query tile with Δ = rowsum(do ∘ o) and logsumexp in log2 units; rows without keys become zeros with
  /// logsumexp = +∞, so that p = 0.
  void pack_queries(std::int64_t first_pair, std::int64_t i, const Scratch& scratch) {
    const TileRows rows = rows_of(first_pair, i);
    const std::int64_t first = i * tiling_.rows;
    for (std::int64_t row = 0; row < tiling_.rows; ++row) {
      scratch.q_rows[row] = scratch.d_o_rows[row] = scratch.o_rows[row] = nullptr;
      key_begin_[first + row] = key_end_[first + row] = 0;
      logsumexp_[first + row] = std::numeric_limits<T>::infinity();
    }
    for_tile_rows(shape_, tiling_, rows, [&](const TileRow& place) {
      const std::int64_t token = rows.b * shape_.query_length + place.slot;
      if (arrays_.key_begin[token] >= arrays_.key_end[token]) return;
      const std::int64_t from = (token * shape_.query_heads + place.head) * shape_.head_dim;
      scratch.q_rows[place.row] = arrays_.q + from;
      scratch.d_o_rows[place.row] = arrays_.d_o + from;
      scratch.o_rows[place.row] = arrays_.o + from;
      key_begin_[first + place.row] = arrays_.key_begin[token];
      key_end_[first + place.row] = arrays_.key_end[token];
      const std::int64_t stat = (rows.b * shape_.query_heads + place.head) * shape_.query_length + place.slot;
      logsumexp_[first + place.row] =
          static_cast<T>(static_cast<double>(arrays_.logsumexp[stat]) * std::numbers::log2e);
    });
    kernels_.pack_rows(scratch.q_rows, tiling_.rows, score_units<T>(shape_).query, shape_.head_dim,
                       q_ + i * tiling_.elements(), tiling_.stride);
    kernels_.pack_rows(scratch.d_o_rows, tiling_.rows, T{1}, shape_.head_dim, d_o_ + i * tiling_.elements(),
                       tiling_.stride);
    kernels_.row_dots(scratch.d_o_rows, scratch.o_rows, tiling_.rows, shape_.head_dim, delta_ + first);
  }

  void run_item(std::int64_t first_pair, std::int64_t pair, std::int64_t group, const Scratch& scratch) {
    const std::int64_t b = batch_of(first_pair + pair);
    const SeenKeys& keys = seen_keys_[b];
    for (std::int64_t low = keys.low; low < keys.high; low += key_tile) {
      if (group_of_[b * key_tiles_ + (low - keys.low) / key_tile] != group) continue;
      std::fill(scratch.dk, scratch.dk + key_tile * tiling_.depth, T{0});
      std::fill(scratch.dv, scratch.dv + key_tile * tiling_.depth, T{0});
      for (std::int64_t i = 0; i < query_tiles_; ++i) run_block(b, pair, group, low, i, scratch);
      write_key_gradients(b, head_of(first_pair + pair), low, scratch);
    }
  }

  /// One query tile against the key tile that begins at `tile_low`.
  void run_block(std::int64_t b, std::int64_t pair, std::int64_t group, std::int64_t tile_low, std::int64_t query_tile,
                 const Scratch& scratch) {
    const KeyRange& range = ranges_[b * tiling_.tiles + query_tile / tiling_.head_parts];
    const std::int64_t low = std::max<std::int64_t>(range.low, tile_low);
    const std::int64_t high = std::min<std::int64_t>(range.high, tile_low + key_tile);
    if (low >= high) return;
    const std::int64_t i = pair * query_tiles_ + query_tile;
    const std::int64_t elements = tiling_.elements();
    const std::int64_t tile_offset = (pair * packed_keys_ + tile_low - seen_keys_[b].low) * tiling_.depth;
    const std::int64_t inside = low - tile_low;
    std::uint8_t& written = dq_written_[(pair * groups_ + group) * query_tiles_ + query_tile];
    kernels_.backward({.rows = tiling_.rows,
                       .depth = tiling_.depth,
                       .q = q_ + i * elements,
                       .d_o = d_o_ + i * elements,
                       .q_stride = tiling_.stride,
                       .softcap = score_units<T>(shape_).softcap,
                       .logsumexp = logsumexp_ + i * tiling_.rows,
                       .delta = delta_ + i * tiling_.rows,
                       .key_begin = key_begin_ + i * tiling_.rows,
                       .key_end = key_end_ + i * tiling_.rows,
                       .key_low = low,
                       .key_panels = (high - low) / panel_width,
                       .full_low = range.full_low,
                       .full_high = range.full_high,
                       .k_panels = k_panels_ + tile_offset + inside * tiling_.depth,
                       .v_panels = v_panels_ + tile_offset + inside * tiling_.depth,
                       .k_rows = k_rows_ + tile_offset + inside * panel_width,
                       .key_stride = key_tile * panel_width,
                       .p = scratch.p,
                       .p_stride = p_stride(),
                       .damped = scratch.damped,
                       .dk = scratch.dk + inside * panel_width,
                       .dv = scratch.dv + inside * panel_width,
                       .dq = dq_ + ((pair * groups_ + group) * query_tiles_ + query_tile) * elements,
                       .dq_is_new = written == 0});
    written = 1;
  }

  /// dsᵀ·q was formed with the packed q.
  void write_key_gradients(std::int64_t b, std::int64_t h, std::int64_t low, const Scratch& scratch) {
    const std::int64_t count = std::min(key_tile, keys_ - low);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t key = b * keys_ + low + i;
      const std::int64_t place = key_offset(shape_, b, h, arrays_.gathered_slots[key]);
      scratch.dk_rows[i] = seen_[key] != 0 ? arrays_.dk + place : nullptr;
      scratch.dv_rows[i] = seen_[key] != 0 ? arrays_.dv + place : nullptr;
    }
    constexpr std::int64_t stride = key_tile * panel_width;
    std::fill(scratch.factors, scratch.factors + count, score_units<T>(shape_).key_gradient);
    kernels_.unpack_rows(scratch.dk, stride, count, scratch.factors, shape_.head_dim, scratch.dk_rows);
    std::fill(scratch.factors, scratch.factors + count, T{1});
    kernels_.unpack_rows(scratch.dv, stride, count, scratch.factors, shape_.head_dim, scratch.dv_rows);
  }

  /// Adds the groups' dQ of a query tile in their order and writes the rows.
  void sum_groups(std::int64_t first_pair, std::int64_t i, const Scratch& scratch) {
    const TileRows rows = rows_of(first_pair, i);
    T* sum = nullptr;
    for (std::int64_t group = 0; group < groups_; ++group) {
      const std::int64_t buffer = (i / query_tiles_ * groups_ + group) * query_tiles_ + i % query_tiles_;
      if (dq_written_[buffer] == 0) continue;
      T* const part = dq_ + buffer * tiling_.elements();
      if (sum != nullptr) kernels_.add(part, tiling_.elements(), sum);
      if (sum == nullptr) sum = part;
    }
    std::fill(scratch.dq_rows, scratch.dq_rows + tiling_.rows, nullptr);
    for_tile_rows(shape_, tiling_, rows, [&](const TileRow& place) {
      const std::int64_t token = rows.b * shape_.query_length + place.slot;
      T* const dq = arrays_.dq + (token * shape_.query_heads + place.head) * shape_.head_dim;
      const bool sees = arrays_.key_begin[token] < arrays_.key_end[token];
      if (!sees) std::fill(dq, dq + shape_.head_dim, T{0});
      scratch.dq_rows[place.row] = sees ? dq : nullptr;
    });
    if (sum == nullptr) return;
    std::fill(scratch.factors, scratch.factors + tiling_.rows, static_cast<T>(shape_.scale));
    kernels_.unpack_rows(sum, tiling_.stride, tiling_.rows, scratch.factors, shape_.head_dim, scratch.dq_rows);
  }

  const AttentionShape& shape_;
  const Arrays<T>& arrays_;
  const AttentionTiles<T>& kernels_;
  int threads_;
  QueryTiling tiling_;
  std::int64_t keys_;
  std::int64_t key_tiles_;
  std::int64_t packed_keys_;
  std::int64_t pairs_;
  std::int64_t query_tiles_;
  std::int64_t groups_ = 1;
  std::int64_t round_pairs_ = 1;
  KeyRange* ranges_ = nullptr;
  SeenKeys* seen_keys_ = nullptr;
  std::uint8_t* seen_ = nullptr;
  std::int32_t* counts_ = nullptr;
  std::int64_t* areas_ = nullptr;
  std::int8_t* group_of_ = nullptr;
  std::int64_t* loads_ = nullptr;
  std::int32_t* items_ = nullptr;
  std::uint8_t* dq_written_ = nullptr;
  std::int32_t* key_begin_ = nullptr;
  std::int32_t* key_end_ = nullptr;
  T* logsumexp_ = nullptr;
  T* delta_ = nullptr;
  T* k_panels_ = nullptr;
  T* v_panels_ = nullptr;
  T* k_rows_ = nullptr;
  T* q_ = nullptr;
  T* d_o_ = nullptr;
  T* dq_ = nullptr;
  std::byte* scratch_ = nullptr;
  std::int64_t scratch_bytes_ = 0;
};

template <typename T>
void backward(const AttentionShape& shape, const Arrays<T>& arrays, Workspace& workspace,
              const AttentionExecution& execution) {
  check_shape(shape);
  check_indices(shape, arrays.gathered_slots, arrays.key_begin, arrays.key_end);
  Backward<T>(shape, arrays, execution).run(workspace);
}

template <typename T>
std::int64_t workspace_bytes(const AttentionShape& shape, const AttentionExecution& execution) {
  check_shape(shape);
  return Backward<T>(shape, Arrays<T>{}, execution).workspace_bytes();
}

}  // namespace

std::int64_t attention_backward_workspace(const AttentionShape& shape, DType dtype,
                                          const AttentionExecution& execution) {
  return dtype == DType::float64 ? workspace_bytes<double>(shape, execution) : workspace_bytes<float>(shape, execution);
}

void attention_backward(const AttentionShape& shape, const float* q, const float* k, const float* v,
                        const std::int32_t* gathered_slots, const std::int32_t* key_begin, const std::int32_t* key_end,
                        const float* o, const float* logsumexp, const float* do_, float* dq, float* dk, float* dv,
                        Workspace& workspace, const AttentionExecution& execution) {
  backward<float>(shape, {q, k, v, gathered_slots, key_begin, key_end, o, logsumexp, do_, dq, dk, dv}, workspace,
                  execution);
}

void attention_backward(const AttentionShape& shape, const double* q, const double* k, const double* v,
                        const std::int32_t* gathered_slots, const std::int32_t* key_begin, const std::int32_t* key_end,
                        const double* o, const double* logsumexp, const double* do_, double* dq, double* dk, double* dv,
                        Workspace& workspace, const AttentionExecution& execution) {
  backward<double>(shape, {q, k, v, gathered_slots, key_begin, key_end, o, logsumexp, do_, dq, dk, dv}, workspace,
                   execution);
}

}  // namespace maxtext
