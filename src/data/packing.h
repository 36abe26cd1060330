// Packing of pieces of documents into rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace maxtext {

/// Up to a row of consecutive tokens of a document.
struct Piece {
  std::int64_t document = 0;
  std::int64_t offset = 0;
  std::int64_t length = 0;
  bool operator==(const Piece&) const = default;
};

using PackedRow = std::vector<Piece>;

struct PackingLimits {
  /// Tokens per row.
  std::int64_t sequence_length = 0;
  /// Pieces per row at most; 1 gives every piece a row of its own, 0 sets no limit.
  std::int64_t max_pieces = 0;
};

/// Puts every piece into exactly one row, the longest first, each where it leaves the least room (best fit decreasing;
/// at most 11/9 of the optimal number of rows + 1, Johnson 1973). Ties go to the earlier piece and row. Within a row
/// pieces keep their order, and rows are ordered by their first pieces. O(n log n).
std::vector<PackedRow> pack_pieces(std::span<const Piece> pieces, const PackingLimits& limits);

}  // namespace maxtext
