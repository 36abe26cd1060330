// Where queries, keys and their gradients lie, and the tiles that attention walks them in.
//
// A tile of queries is `rows` = tile.queries · group rows of one product: the query heads that read one KV head, for
// all queries of the tile, so that K and V are never repeated. Keys and values are first brought into original token
// order, KV heads outside: [B, heads, keys rounded up to tiles, D]. All indices are int32.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engines/xla/attention_tiles.h"
#include "engines/xla/trace.h"

namespace maxtext {

struct AttentionSizes {
  std::int64_t batch, queries, query_heads, head_dim;
  std::int64_t devices, keys_per_device;
  std::int64_t heads;             ///< KV heads at work
  std::int64_t group;             ///< query heads that read one KV head
  std::int64_t first_query_head;  ///< of the first KV head at work
  AttentionTiles tile;

  std::int64_t keys() const { return devices * keys_per_device; }
  std::int64_t rows() const { return tile.queries * group; }
  std::int64_t query_tiles() const { return (queries + tile.queries - 1) / tile.queries; }
  std::int64_t padded_keys() const { return (keys() + tile.keys - 1) / tile.keys * tile.keys; }
};

/// A query tile of one KV head: scalars, and vectors of its rows or queries.
struct QueryTile {
  XlaValue batch, kv_head;
  XlaValue query_head;  ///< the first
  XlaValue query;       ///< the first: where the tile would reach beyond the end it begins earlier
  XlaValue begin, end;  ///< key intervals [tile.queries]
  XlaValue has_keys;    ///< boolean [rows]
  XlaValue is_new;      ///< boolean [rows]: false for rows that the tile before has had
  XlaValue first_key_tile, end_key_tile;
};

/// What a query tile sees of a key tile.
struct VisibleKeys {
  XlaValue mask;                       ///< boolean [rows, tile.keys]
  XlaValue seen;                       ///< boolean [tile.keys]: by at least one query
  XlaValue batch, kv_head, first_key;  ///< scalars
};

/// Writes the parts that forward and backward share.
class AttentionLayout {
 public:
  /// `inputs` are those of the op: q, k, v, gathered_slots, key_begin, key_end, ...
  AttentionLayout(XlaContext& context, XlaInputs inputs, std::int64_t kv_heads, std::int64_t kv_head_begin);

  const AttentionSizes& sizes() const { return sizes_; }
  StableHloWriter& writer() const { return context_.writer; }

  /// k or v [P, B, T_kv, heads, D] -> [B, heads, padded_keys, D].
  XlaValue in_original_order(const Tensor& keys) const;
  /// Gradients back: [B, heads, padded_keys, D] -> [P, B, T_kv, heads, D].
  XlaValue in_gathered_order(const XlaValue& gradient) const;

  /// Runs `body` for every batch row, KV head and query tile; it gets and returns what is carried from one to the next.
  using TileBody = std::function<std::vector<XlaValue>(const QueryTile&, std::span<const XlaValue>)>;
  std::vector<XlaValue> for_query_tiles(std::span<const XlaValue> initial, const TileBody& body) const;
  /// Runs `body` for the key tiles that the queries of `tile` see something of.
  using KeyBody = std::function<std::vector<XlaValue>(const VisibleKeys&, std::span<const XlaValue>)>;
  std::vector<XlaValue> for_key_tiles(const QueryTile& tile, std::span<const XlaValue> initial,
                                      const KeyBody& body) const;

  /// Of x [B, T, query_heads, D], and back: [rows, D].
  XlaValue query_rows(const XlaValue& x, const QueryTile& tile) const;
  XlaValue update_query_rows(const XlaValue& x, const XlaValue& rows, const QueryTile& tile) const;
  /// Of x [B, query_heads, T], and back: [rows].
  XlaValue row_numbers(const XlaValue& x, const QueryTile& tile) const;
  XlaValue update_row_numbers(const XlaValue& x, const XlaValue& rows, const QueryTile& tile) const;
  /// Of x [B, heads, padded_keys, D], and back: [tile.keys, D].
  XlaValue key_rows(const XlaValue& x, const VisibleKeys& keys) const;
  XlaValue update_key_rows(const XlaValue& x, const XlaValue& rows, const VisibleKeys& keys) const;

  /// x [n, D] or [n] where `kept` [n] is true, zeros elsewhere, whatever x holds there.
  XlaValue rows_where(const XlaValue& kept, const XlaValue& x) const;
  /// [rows] as [rows, columns].
  XlaValue along_columns(const XlaValue& x, std::int64_t columns) const;

 private:
  XlaValue index(std::int64_t value) const;
  XlaValue slot_rows() const;
  XlaValue per_row(const XlaValue& per_query) const;
  QueryTile query_tile(const XlaValue& batch, const XlaValue& kv_head, const XlaValue& number) const;
  VisibleKeys visible_keys(const QueryTile& tile, const XlaValue& number) const;
  XlaValue in_interval(const XlaValue& begin, const XlaValue& end, const XlaValue& first_key) const;

  XlaContext& context_;
  AttentionSizes sizes_;
  XlaValue slots_;      // gathered_slots [B, keys]
  XlaValue key_begin_;  // [B, T]
  XlaValue key_end_;    // [B, T]
};

/// Scores of a tile: scale·q·kᵀ, soft-capped where `softcap` > 0, and then `slope` = 1 − (s/softcap)².
struct AttentionScores {
  XlaValue scores;
  XlaValue slope;
};
/// q [rows, D], k [tile.keys, D] -> [rows, tile.keys] in the accumulation dtype, without a mask.
AttentionScores attention_scores(StableHloWriter& writer, const XlaValue& q, const XlaValue& k, double scale,
                                 double softcap);

}  // namespace maxtext
