// Copies between rows as callers hold them and panels.
#pragma once

#include "engines/cpu/kernels/panel_gemm.h"

namespace maxtext::MAXTEXT_ISA {

template <typename T>
void pack_rows(const T* const* rows, std::int64_t count, T factor, std::int64_t head_dim, T* to, std::int64_t stride) {
  const Vec<T> scale = broadcast(factor);
  const std::int64_t whole = head_dim / panel_width * panel_width;
  for (std::int64_t r = 0; r < count; ++r) {
    const T* const from = rows[r];
    T* place = to + r * panel_width;
    for (std::int64_t d = 0; d < whole; d += panel_width, place += stride) {
      for (std::int64_t i = 0; i < panel_width; i += lanes<T>) {
        store(place + i, from == nullptr ? Vec<T>{} : load(from + d + i) * scale);
      }
    }
    if (whole == head_dim) continue;
    for (std::int64_t i = 0; i < panel_width; ++i) {
      place[i] = from != nullptr && whole + i < head_dim ? from[whole + i] * factor : T{0};
    }
  }
}

/// {a, b} with the upper half of each run of 2·half lanes of a exchanged for the lower half of b's.
template <typename T, int half, int... j>
[[gnu::always_inline]] inline void exchange(Vec<T>& a, Vec<T>& b, std::integer_sequence<int, j...>) {
  constexpr int width = lanes<T>;
  const Vec<T> low = __builtin_shufflevector(a, b, ((j & half) == 0 ? j : width + j - half)...);
  b = __builtin_shufflevector(a, b, ((j & half) == 0 ? j + half : width + j)...);
  a = low;
}
/// Transposes a square of lanes × lanes in log2(lanes) rounds of exchanges.
template <typename T, int half>
[[gnu::always_inline]] inline void transpose(Vec<T> (&rows)[lanes<T>]) {
  if constexpr (half > 0) {
#pragma GCC unroll 16
    for (int i = 0; i < lanes<T>; ++i) {
      if ((i & half) == 0) {
        exchange<T, half>(rows[i], rows[i + half], std::make_integer_sequence<int, lanes<T>>{});
      }
    }
    transpose<T, half / 2>(rows);
  }
}

template <typename T>
void pack_transposed(const T* const* rows, std::int64_t head_dim, T* panel) {
  constexpr int width = lanes<T>;
  const std::int64_t whole = head_dim / width * width;
  const std::int64_t depth = (head_dim + panel_width - 1) / panel_width * panel_width;
  for (std::int64_t r = 0; r < panel_width; r += width) {
    for (std::int64_t d = 0; d < whole; d += width) {
      Vec<T> square[width];
#pragma GCC unroll 16
      for (int i = 0; i < width; ++i) square[i] = rows[r + i] == nullptr ? Vec<T>{} : load(rows[r + i] + d);
      transpose<T, width / 2>(square);
#pragma GCC unroll 16
      for (int i = 0; i < width; ++i) store(panel + (d + i) * panel_width + r, square[i]);
    }
    for (std::int64_t d = whole; d < depth; ++d) {
      for (std::int64_t i = r; i < r + width; ++i) {
        panel[d * panel_width + i] = rows[i] != nullptr && d < head_dim ? rows[i][d] : T{0};
      }
    }
  }
}

template <typename T>
void unpack_rows(const T* from, std::int64_t stride, std::int64_t count, const T* factors, std::int64_t head_dim,
                 T* const* rows) {
  const std::int64_t whole = head_dim / panel_width * panel_width;
  for (std::int64_t r = 0; r < count; ++r) {
    T* const to = rows[r];
    if (to == nullptr) continue;
    const Vec<T> scale = broadcast(factors[r]);
    const T* place = from + r * panel_width;
    for (std::int64_t d = 0; d < whole; d += panel_width, place += stride) {
      for (std::int64_t i = 0; i < panel_width; i += lanes<T>) {
        store(to + d + i, multiply_add(load(place + i), scale, Vec<T>{}));
      }
    }
    for (std::int64_t d = whole; d < head_dim; ++d) to[d] = place[d - whole] * factors[r] + T{0};
  }
}

template <typename T>
void row_dots(const T* const* a, const T* const* b, std::int64_t count, std::int64_t head_dim, T* dots) {
  const std::int64_t whole = head_dim / lanes<T> * lanes<T>;
  for (std::int64_t r = 0; r < count; ++r) {
    dots[r] = 0;
    if (a[r] == nullptr) continue;
    Vec<T> sum{};
    for (std::int64_t d = 0; d < whole; d += lanes<T>) sum = multiply_add(load(a[r] + d), load(b[r] + d), sum);
    T rest = 0;
    for (std::int64_t d = whole; d < head_dim; ++d) rest += a[r][d] * b[r][d];
    dots[r] = reduce_add<T>(sum) + rest;
  }
}

template <typename T>
void add(const T* from, std::int64_t count, T* to) {
  for (std::int64_t i = 0; i < count; i += lanes<T>) store(to + i, load(to + i) + load(from + i));
}

}  // namespace maxtext::MAXTEXT_ISA
