// How the rows and keys of an attention call are cut into tiles, which keys anyone sees, and how both are packed.
// Forward and backward share it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numbers>

#include "engines/cpu/attention_kernel.h"
#include "engines/cpu/kernels/attention_tiles.h"

namespace maxtext {

/// A query tile is `positions` consecutive query slots × `heads` query heads of one KV head; row p·heads + h. Many
/// heads and few positions: all heads see the same keys, so a causal diagonal wastes little.
struct QueryTiling {
  std::int64_t group;       ///< query heads per KV head
  std::int64_t heads;       ///< of them in one tile
  std::int64_t head_parts;  ///< tiles that share a run of positions
  std::int64_t positions;   ///< per tile
  std::int64_t tiles;       ///< runs of positions in T
  std::int64_t rows;        ///< positions · heads, padded to row_quantum
  std::int64_t depth;       ///< head_dim padded to panel_width
  std::int64_t stride;      ///< of packed panel matrices of a tile's rows

  std::int64_t elements() const { return stride * (depth / panel_width); }
};

/// Tiles of about `target_rows` rows.
QueryTiling tile_queries(const AttentionShape& shape, std::int64_t target_rows);

/// Keys that the rows of one run of positions see: [low, high) is their union, widened to multiples of panel_width,
/// empty as low == high; all of [full_low, full_high) is seen by every row, widened inwards.
struct KeyRange {
  std::int32_t low, high, full_low, full_high;
};

/// The units in which the tiles' kernels work: scores are logarithms to base 2, and a score needs no factor but those
/// that are packed with the queries.
template <typename T>
struct ScoreUnits {
  T query;         ///< queries are packed times this
  T softcap;       ///< of the tiles
  T key_gradient;  ///< dsᵀ·(packed q) times this is dk
};
template <typename T>
ScoreUnits<T> score_units(const AttentionShape& shape) {
  if (shape.softcap == 0) {
    return {static_cast<T>(shape.scale * std::numbers::log2e), T{0}, static_cast<T>(std::numbers::ln2)};
  }
  return {static_cast<T>(shape.scale / shape.softcap), static_cast<T>(shape.softcap * std::numbers::log2e),
          static_cast<T>(shape.softcap)};
}

/// Throws Error for sizes that do not fit together.
void check_shape(const AttentionShape& shape);
/// Throws Error for an interval or a slot outside the keys of the call.
void check_indices(const AttentionShape& shape, const std::int32_t* gathered_slots, const std::int32_t* key_begin,
                   const std::int32_t* key_end);

/// Fills ranges [B, tiles].
void find_key_ranges(const AttentionShape& shape, const QueryTiling& tiling, const std::int32_t* key_begin,
                     const std::int32_t* key_end, KeyRange* ranges);

/// seen[j] = 1 where a query of batch row `b` sees key j, else 0, for all P·T_kv keys; returns the first seen key
/// rounded down to `unit` and the last one's end rounded up (both 0 when nothing is seen). `counts`: scratch of
/// P·T_kv + 1.
struct SeenKeys {
  std::int64_t low, high;
};
SeenKeys find_seen_keys(const AttentionShape& shape, std::int64_t b, const std::int32_t* key_begin,
                        const std::int32_t* key_end, std::int64_t unit, std::int32_t* counts, std::uint8_t* seen);

/// Where key j of batch row b and head h (of this group) lies in k, v, dk, dv; `slots` = gathered_slots of row b.
inline std::int64_t key_offset(const AttentionShape& shape, std::int64_t b, std::int64_t h, std::int32_t slot) {
  const std::int32_t length = static_cast<std::int32_t>(shape.kv_length);
  const std::int64_t device = slot / length;
  const std::int64_t t = slot % length;
  return (((device * shape.batch + b) * shape.kv_length + t) * shape.group_kv_heads + h) * shape.head_dim;
}

/// Pointers to the rows of 16 keys from `key` on, null for those unseen or beyond the last.
template <typename T>
struct KeyRows {
  const T* row[panel_width];
};
template <typename T>
KeyRows<T> key_rows(const AttentionShape& shape, const T* k, std::int64_t b, std::int64_t h, const std::int32_t* slots,
                    const std::uint8_t* seen, std::int64_t key);

/// The rows of one query tile.
struct TileRows {
  std::int64_t b;
  std::int64_t h;     ///< KV head within the group
  std::int64_t tile;  ///< run of positions
  std::int64_t part;  ///< of the heads
};
struct TileRow {
  std::int64_t slot;  ///< query slot
  std::int64_t head;  ///< query head among all
  std::int64_t row;   ///< of the tile
};
/// Calls visit(TileRow) for each real row of a tile; rows that pad it are left out.
template <typename Visit>
void for_tile_rows(const AttentionShape& shape, const QueryTiling& tiling, const TileRows& rows, Visit&& visit) {
  const std::int64_t first_slot = rows.tile * tiling.positions;
  const std::int64_t first_head = rows.part * tiling.heads;
  const std::int64_t heads = std::min(tiling.heads, tiling.group - first_head);
  const std::int64_t positions = std::min(tiling.positions, shape.query_length - first_slot);
  for (std::int64_t p = 0; p < positions; ++p) {
    for (std::int64_t h = 0; h < heads; ++h) {
      visit(TileRow{first_slot + p, (shape.kv_head_begin + rows.h) * tiling.group + first_head + h,
                    p * tiling.heads + h});
    }
  }
}

}  // namespace maxtext
