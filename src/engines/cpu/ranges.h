// Cutting a run of elements for the threads of a team.
#pragma once

#include <algorithm>
#include <cstdint>

namespace maxtext {

/// Calls body(begin, length) for pieces of [0, count), in parallel; the pieces do not depend on the number of threads.
/// A piece is large enough to pay for its scheduling and small enough to balance.
template <typename Body>
void for_ranges(std::int64_t count, Body body) {
  constexpr std::int64_t kPiece = 8192;
  const std::int64_t pieces = (count + kPiece - 1) / kPiece;
#pragma omp parallel for schedule(static) if (pieces > 1)
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const std::int64_t begin = piece * kPiece;
    body(begin, std::min(kPiece, count - begin));
  }
}

}  // namespace maxtext
