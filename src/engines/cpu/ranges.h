// Cutting a run of elements, or rows, for the threads of a team.
#pragma once

#include <algorithm>
#include <cstdint>

namespace maxtext {

/// Elements of elementwise work that the calling thread does faster alone than with a team: waking the team and waiting
/// for it costs a microsecond or two while it spins, as long as some 10 000 elements take.
constexpr std::int64_t serial_elements = 8192;

/// Calls body(begin, length) for pieces of [0, count), in parallel; the pieces do not depend on the number of threads.
/// A piece is large enough to pay for its scheduling and small enough to balance.
template <typename Body>
void for_ranges(std::int64_t count, Body body) {
  if (count <= serial_elements) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  const std::int64_t pieces = (count + serial_elements - 1) / serial_elements;
#pragma omp parallel for schedule(static)
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const std::int64_t begin = piece * serial_elements;
    body(begin, std::min(serial_elements, count - begin));
  }
}

/// Calls body(row) for each of `rows` rows of as many elements, in parallel where together they are worth it.
template <typename Body>
void for_rows(std::int64_t rows, std::int64_t elements_per_row, Body body) {
  if (rows <= 1 || rows * elements_per_row <= serial_elements) {
    for (std::int64_t row = 0; row < rows; ++row) body(row);
    return;
  }
#pragma omp parallel for schedule(static)
  for (std::int64_t row = 0; row < rows; ++row) body(row);
}

}  // namespace maxtext
