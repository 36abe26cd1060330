#include "engines/cpu/attention_tiling.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace maxtext {
namespace {

constexpr std::int64_t most_heads_per_tile = 8;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }
std::int32_t panel_end(std::int32_t key) { return static_cast<std::int32_t>(round_up(key, panel_width)); }

KeyRange range_of(const std::int32_t* begin, const std::int32_t* end, std::int64_t count) {
  constexpr std::int32_t unit = panel_width;
  std::int32_t low = std::numeric_limits<std::int32_t>::max();
  std::int32_t high = 0;
  std::int32_t full_low = 0;
  std::int32_t full_high = std::numeric_limits<std::int32_t>::max();
  for (std::int64_t i = 0; i < count; ++i) {
    full_low = std::max(full_low, begin[i]);
    full_high = std::min(full_high, end[i]);
    if (begin[i] >= end[i]) {
      full_high = 0;
      continue;
    }
    low = std::min(low, begin[i]);
    high = std::max(high, end[i]);
  }
  if (low >= high) return {0, 0, 0, 0};
  low = low / unit * unit;
  high = panel_end(high);
  full_low = panel_end(full_low);
  full_high = full_high / unit * unit;
  return {low, high, std::min(full_low, high), std::max(full_high, low)};
}

}  // namespace

QueryTiling tile_queries(const AttentionShape& shape, std::int64_t target_rows) {
  QueryTiling tiling{};
  tiling.group = shape.query_heads / shape.kv_heads;
  tiling.head_parts = divide_up(tiling.group, most_heads_per_tile);
  tiling.heads = divide_up(tiling.group, tiling.head_parts);
  tiling.positions = std::max<std::int64_t>(1, std::min(target_rows / tiling.heads, shape.query_length));
  tiling.tiles = divide_up(shape.query_length, tiling.positions);
  tiling.rows = round_up(tiling.positions * tiling.heads, row_quantum);
  tiling.depth = round_up(shape.head_dim, panel_width);
  // Two rows of padding: panels 4096 bytes apart would share the same few cache sets.
  tiling.stride = (tiling.rows + 2) * panel_width;
  return tiling;
}

void check_shape(const AttentionShape& shape) {
  const bool positive = shape.batch > 0 && shape.query_length > 0 && shape.query_heads > 0 && shape.head_dim > 0 &&
                        shape.devices > 0 && shape.kv_length > 0 && shape.group_kv_heads > 0 && shape.kv_heads > 0;
  if (!positive) fail("attention: every size must be positive");
  if (shape.query_heads % shape.kv_heads != 0) {
    fail("attention: {} query heads are no multiple of {} KV heads", shape.query_heads, shape.kv_heads);
  }
  if (shape.kv_head_begin < 0 || shape.kv_head_begin + shape.group_kv_heads > shape.kv_heads) {
    fail("attention: KV heads {}..{} are not among {}", shape.kv_head_begin, shape.kv_head_begin + shape.group_kv_heads,
         shape.kv_heads);
  }
  if (!(shape.softcap >= 0)) fail("attention: a softcap of {} is not positive", shape.softcap);
  if (shape.devices * shape.kv_length > std::numeric_limits<std::int32_t>::max() - 1024) {
    fail("attention: {} x {} keys do not fit 32-bit indices", shape.devices, shape.kv_length);
  }
}

void check_indices(const AttentionShape& shape, const std::int32_t* gathered_slots, const std::int32_t* key_begin,
                   const std::int32_t* key_end) {
  const std::int64_t keys = shape.devices * shape.kv_length;
  for (std::int64_t i = 0; i < shape.batch * shape.query_length; ++i) {
    if (key_begin[i] < key_end[i] && (key_begin[i] < 0 || key_end[i] > keys)) {
      fail("attention: query {} of row {} has keys {}..{} of {}", i % shape.query_length, i / shape.query_length,
           key_begin[i], key_end[i], keys);
    }
  }
  for (std::int64_t i = 0; i < shape.batch * keys; ++i) {
    if (gathered_slots[i] < 0 || gathered_slots[i] >= keys) {
      fail("attention: token {} of row {} has gathered slot {} of {}", i % keys, i / keys, gathered_slots[i], keys);
    }
  }
}

void find_key_ranges(const AttentionShape& shape, const QueryTiling& tiling, const std::int32_t* key_begin,
                     const std::int32_t* key_end, KeyRange* ranges) {
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t tile = 0; tile < tiling.tiles; ++tile) {
      const std::int64_t first = tile * tiling.positions;
      const std::int64_t count = std::min(tiling.positions, shape.query_length - first);
      const std::int64_t offset = b * shape.query_length + first;
      ranges[b * tiling.tiles + tile] = range_of(key_begin + offset, key_end + offset, count);
    }
  }
}

SeenKeys find_seen_keys(const AttentionShape& shape, std::int64_t b, const std::int32_t* key_begin,
                        const std::int32_t* key_end, std::int64_t unit, std::int32_t* counts, std::uint8_t* seen) {
  const std::int64_t keys = shape.devices * shape.kv_length;
  std::fill(counts, counts + keys + 1, 0);
  for (std::int64_t i = b * shape.query_length; i < (b + 1) * shape.query_length; ++i) {
    if (key_begin[i] >= key_end[i]) continue;
    ++counts[key_begin[i]];
    --counts[key_end[i]];
  }
  std::int64_t first = keys;
  std::int64_t last = 0;
  std::int64_t open = 0;
  for (std::int64_t j = 0; j < keys; ++j) {
    open += counts[j];
    seen[j] = open > 0 ? 1 : 0;
    if (open > 0) {
      first = std::min(first, j);
      last = j + 1;
    }
  }
  if (first >= last) return {0, 0};
  return {first / unit * unit, round_up(last, unit)};
}

template <typename T>
KeyRows<T> key_rows(const AttentionShape& shape, const T* k, std::int64_t b, std::int64_t h, const std::int32_t* slots,
                    const std::uint8_t* seen, std::int64_t key) {
  const std::int64_t keys = shape.devices * shape.kv_length;
  KeyRows<T> rows;
  for (std::int64_t i = 0; i < panel_width; ++i) {
    const bool wanted = key + i < keys && seen[key + i] != 0;
    rows.row[i] = wanted ? k + key_offset(shape, b, h, slots[key + i]) : nullptr;
  }
  return rows;
}

template KeyRows<float> key_rows(const AttentionShape&, const float*, std::int64_t, std::int64_t, const std::int32_t*,
                                 const std::uint8_t*, std::int64_t);
template KeyRows<double> key_rows(const AttentionShape&, const double*, std::int64_t, std::int64_t, const std::int32_t*,
                                  const std::uint8_t*, std::int64_t);

}  // namespace maxtext
