// How many (query, key) pairs a causal, windowed, document-masked attention computes: in closed form, so that a plan
// for a million tokens costs no more than one for a thousand.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace maxtext {

/// Visible pairs of the first `queries` tokens of a document: sum over t < queries of min(t + 1, window);
/// window 0 means all earlier tokens. Queries see themselves.
std::int64_t visible_pairs(std::int64_t queries, std::int64_t window);

/// Visible pairs of the queries of each chunk of a row. Chunk i holds the tokens [starts[i], starts[i + 1]); `starts`
/// is ascending and begins at 0. Documents lie one after the other from token 0; tokens behind the last are padding and
/// see nothing. Costs O(documents + chunks), whatever the length.
std::vector<std::int64_t> chunk_areas(std::span<const std::int64_t> document_lengths,
                                      std::span<const std::int64_t> starts, std::int64_t window);

}  // namespace maxtext
