#include "data/packing.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace maxtext {
namespace {

std::vector<std::size_t> longest_first(std::span<const Piece> pieces) {
  std::vector<std::size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return pieces[a].length > pieces[b].length; });
  return order;
}

/// Rows as lists of indices into `pieces`.
std::vector<std::vector<std::size_t>> best_fit(std::span<const Piece> pieces, const PackingLimits& limits) {
  std::vector<std::vector<std::size_t>> rows;
  std::set<std::pair<std::int64_t, std::size_t>> open;  // (tokens left, row)
  for (const std::size_t index : longest_first(pieces)) {
    const std::int64_t length = pieces[index].length;
    const auto fit = open.lower_bound({length, 0});
    const bool found = fit != open.end();
    const auto [left, row] = found ? *fit : std::pair(limits.sequence_length, rows.size());
    if (found) open.erase(fit);
    if (!found) rows.emplace_back();
    rows[row].push_back(index);
    const bool full = limits.max_pieces > 0 && std::ssize(rows[row]) >= limits.max_pieces;
    if (left > length && !full) open.emplace(left - length, row);
  }
  return rows;
}

}  // namespace

std::vector<PackedRow> pack_pieces(std::span<const Piece> pieces, const PackingLimits& limits) {
  auto rows = best_fit(pieces, limits);
  for (auto& row : rows) std::sort(row.begin(), row.end());
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.front() < b.front(); });
  std::vector<PackedRow> packed;
  packed.reserve(rows.size());
  for (const auto& row : rows) {
    PackedRow& target = packed.emplace_back();
    for (const std::size_t index : row) target.push_back(pieces[index]);
  }
  return packed;
}

}  // namespace maxtext
