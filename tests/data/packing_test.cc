#include "data/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace maxtext {
namespace {

std::vector<Piece> random_pieces(int count, std::int64_t longest, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Piece> pieces;
  for (int i = 0; i < count; ++i) pieces.push_back({i, 0, 1 + static_cast<std::int64_t>(random()) % longest});
  return pieces;
}

TEST(PackPieces, EveryPieceOnceAndNoRowOverfull) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const std::int64_t length = 10 + seed;
    const auto pieces = random_pieces(1 + static_cast<int>(seed) * 5, length, seed);
    std::map<std::int64_t, int> seen;
    std::int64_t previous_first = -1;
    for (const PackedRow& row : pack_pieces(pieces, {length, 0})) {
      ASSERT_FALSE(row.empty());
      std::int64_t tokens = 0;
      for (const Piece& piece : row) {
        tokens += piece.length;
        ++seen[piece.document];
        EXPECT_EQ(piece, pieces[static_cast<std::size_t>(piece.document)]);
      }
      EXPECT_LE(tokens, length);
      EXPECT_TRUE(std::is_sorted(row.begin(), row.end(), [](auto& a, auto& b) { return a.document < b.document; }));
      EXPECT_GT(row.front().document, previous_first);
      previous_first = row.front().document;
    }
    EXPECT_EQ(seen.size(), pieces.size());
    for (const auto& [document, count] : seen) EXPECT_EQ(count, 1) << document;
  }
}

TEST(PackPieces, FindsTheTightFits) {
  // Optimal is three full rows: 7+3, 6+4, 5+5. Taking pieces in order of arrival would need four.
  const std::vector<Piece> pieces = {{0, 0, 3}, {1, 0, 6}, {2, 0, 5}, {3, 0, 7}, {4, 0, 5}, {5, 0, 4}};
  const auto rows = pack_pieces(pieces, {10, 0});
  EXPECT_EQ(rows, (std::vector<PackedRow>{{pieces[0], pieces[3]}, {pieces[1], pieces[5]}, {pieces[2], pieces[4]}}));
}

TEST(PackPieces, WithinTheBoundOfBestFitDecreasing) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const auto pieces = random_pieces(200, 1 + seed * 2, seed);
    std::int64_t tokens = 0;
    for (const Piece& piece : pieces) tokens += piece.length;
    const std::int64_t lower_bound = (tokens + 99) / 100;
    // The tokens alone bound the optimum from below, so this holds for the optimum too.
    EXPECT_LE(std::ssize(pack_pieces(pieces, {100, 0})), lower_bound * 11 / 9 + 1) << seed;
  }
}

TEST(PackPieces, LimitsPiecesPerRow) {
  const std::vector<Piece> pieces(7, Piece{0, 0, 1});
  EXPECT_EQ(pack_pieces(pieces, {100, 0}).size(), 1U);
  EXPECT_EQ(pack_pieces(pieces, {100, 3}).size(), 3U);
  EXPECT_EQ(pack_pieces(pieces, {100, 1}).size(), 7U);
  EXPECT_TRUE(pack_pieces({}, {100, 1}).empty());
}

}  // namespace
}  // namespace maxtext
