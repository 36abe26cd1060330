#include "engines/xla/attention_tiles.h"

#include <algorithm>

namespace maxtext {
namespace {

constexpr std::int64_t matrix_unit = 128;
constexpr std::int64_t most_keys = 1024;
constexpr std::int64_t query_multiple = 8;
constexpr std::int64_t tiles_wanted = 8;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

/// The smallest multiple of `multiple` with which `count` takes no more tiles than with `tile`.
std::int64_t evened_out(std::int64_t count, std::int64_t tile, std::int64_t multiple) {
  return std::min(count, round_up(divide_up(count, divide_up(count, tile)), multiple));
}

}  // namespace

AttentionTiles attention_tiles(std::int64_t queries, std::int64_t keys, std::int64_t group) {
  const std::int64_t wanted_keys = std::min(round_up(divide_up(keys, tiles_wanted), matrix_unit), most_keys);
  const std::int64_t key_tile = evened_out(keys, wanted_keys, matrix_unit);
  const std::int64_t most_rows = most_score_bytes / (static_cast<std::int64_t>(sizeof(float)) * key_tile);
  const std::int64_t most_queries = std::clamp<std::int64_t>(most_rows / group, 1, wanted_keys);
  const std::int64_t multiple = most_queries >= query_multiple ? query_multiple : 1;
  return {evened_out(queries, most_queries / multiple * multiple, multiple), key_tile};
}

}  // namespace maxtext
