// How large the tiles are in which attention is computed.
#pragma once

#include <cstdint>

namespace maxtext {

struct AttentionTiles {
  std::int64_t queries;
  std::int64_t keys;
};

/// Tiles for `queries` queries on `keys` keys where `group` query heads read one KV head: the scores at work are
/// [group · tile.queries, tile.keys].
///
/// Keys: an eighth of them in multiples of 128 (the edge of a TPU's matrix unit), at most 1024; fewer than 128 are one
/// tile. A causal mask makes a tile row compute half a tile more in each direction than it must, which an eighth
/// bounds: (1/16 + 1/16) of the keys beside the half of them that a query sees, 25 %; at 8192 keys it is 25 % with
/// tiles of 1024, at 131072 1.6 %. Compilers keep the scores in memory, so their traffic does not depend on the
/// tile, but that of the accumulators does: o [group · tile.queries, D] is read and written once per key tile, 2·D
/// numbers beside the 3 to 5·tile.keys of a row of scores.
/// Queries: as many as keys, but no more than `most_score_bytes` of float32 scores allow: with 1024 keys that is
/// 4096 rows, 1024 queries of up to 4 heads or 512 of 8. Tiles are then evened out over the queries, in multiples
/// of 8 where there are as many.
AttentionTiles attention_tiles(std::int64_t queries, std::int64_t keys, std::int64_t group);

inline constexpr std::int64_t most_score_bytes = std::int64_t{16} << 20;

}  // namespace maxtext
