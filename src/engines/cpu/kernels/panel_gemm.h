// The one GEMM micro-kernel behind all seven products of attention. Operands are panel matrices (N/16 panels of
// [M][16] elements): then every product, the transposed ones too, reads contiguous memory. What happens to a block of
// results is the caller's `Op`, so that maximum, exponential and masks work on registers.
//
// Cost model: a block of MR rows × NP panels does MR·NV FMAs per step for NV loads and MR broadcasts (NV = vectors).
// AVX-512: 8 × 2 vectors, 16 FMAs for 10 loads (12 × 2 was no faster on Zen 4, and 16-row operands would leave a tail);
// AVX2: 6 × 2 vectors, 12 FMAs for 8 loads. Each sum is one chain in
// ascending order whatever the block, so results do not depend on the blocking.
#pragma once

#include "engines/cpu/kernels/attention_tiles.h"
#include "engines/cpu/kernels/vec.h"

namespace maxtext::MAXTEXT_ISA {

/// Vectors in a panel's row.
template <typename T>
constexpr int panel_vectors = static_cast<int>(panel_width) / lanes<T>;
/// Panels side by side in a block.
template <typename T>
constexpr int block_panels = panel_vectors<T> == 1 ? 2 : 1;
template <typename T>
constexpr int block_vectors = block_panels<T>* panel_vectors<T>;
/// Rows of a block: accumulators, one row of B and a broadcast fit the registers.
template <typename T>
constexpr int block_rows = vector_registers == 32  ? 8
                           : block_vectors<T> == 2 ? 6
                           : block_vectors<T> == 4 ? 2
                                                   : 1;

/// The left operand: M×K as stored, or the transpose of a K×16 panel (M ≤ 16).
enum class Left { panels, transposed };

template <typename T, Left left, int MR, int NV>
[[gnu::always_inline]] inline void multiply_step(const T* a, const T* b, std::int64_t b_stride, Vec<T> (&sum)[MR][NV]) {
  constexpr int row_step = left == Left::panels ? static_cast<int>(panel_width) : 1;
  constexpr int vectors = panel_vectors<T>;
  Vec<T> right[NV];
#pragma GCC unroll 16
  for (int n = 0; n < NV; ++n) right[n] = load(b + (n / vectors) * b_stride + (n % vectors) * lanes<T>);
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m) {
    const Vec<T> element = broadcast(a[m * row_step]);
#pragma GCC unroll 16
    for (int n = 0; n < NV; ++n) sum[m][n] = multiply_add(element, right[n], sum[m][n]);
  }
}

/// sum += A·B over `depth` steps (a multiple of 16 for Left::panels).
template <typename T, Left left, int MR, int NV>
[[gnu::always_inline]] inline void multiply_block(const T* a, std::int64_t a_stride, const T* b, std::int64_t b_stride,
                                                  std::int64_t depth, Vec<T> (&sum)[MR][NV]) {
  if constexpr (left == Left::panels) {
    for (std::int64_t k = 0; k < depth; k += panel_width, a += a_stride, b += panel_width * panel_width) {
#pragma GCC unroll 4
      for (int step = 0; step < panel_width; ++step) {
        multiply_step<T, left>(a + step, b + step * panel_width, b_stride, sum);
      }
    }
  } else {
#pragma GCC unroll 4
    for (std::int64_t k = 0; k < depth; ++k) {
      multiply_step<T, left>(a + k * panel_width, b + k * panel_width, b_stride, sum);
    }
  }
}

template <typename T>
struct Operands {
  std::int64_t rows;    ///< of A; a multiple of 4
  std::int64_t panels;  ///< of B
  std::int64_t depth;
  const T* a;
  std::int64_t a_stride;
  const T* b;
  std::int64_t b_stride;
};

/// One block at row m and panel n: op.begin fills the sums, op.end takes them.
template <typename T, Left left, int MR, int NP, typename Op>
[[gnu::always_inline]] inline void multiply_at(const Operands<T>& x, std::int64_t m, std::int64_t n, const Op& op) {
  Vec<T> sum[MR][NP * panel_vectors<T>];
  op.begin(m, n, sum);
  multiply_block<T, left>(x.a + m * (left == Left::panels ? panel_width : 1), x.a_stride, x.b + n * x.b_stride,
                          x.b_stride, x.depth, sum);
  op.end(m, n, sum);
}

template <typename T, Left left, int NP, typename Op>
[[gnu::always_inline]] inline void multiply_all_rows(const Operands<T>& x, std::int64_t n, const Op& op) {
  constexpr int MR = block_rows<T>;
  std::int64_t m = 0;
  for (; m + MR <= x.rows; m += MR) multiply_at<T, left, MR, NP>(x, m, n, op);
  if constexpr (MR > 4) {
    for (; m + 4 <= x.rows; m += 4) multiply_at<T, left, 4, NP>(x, m, n, op);
  }
  if constexpr (MR > 2) {
    for (; m + 2 <= x.rows; m += 2) multiply_at<T, left, 2, NP>(x, m, n, op);
  }
}

/// All of A·B, a strip of B at a time: B stays in L1 while A passes.
template <typename T, Left left, typename Op>
[[gnu::always_inline]] inline void multiply_by_panels(const Operands<T>& x, const Op& op) {
  constexpr int NP = block_panels<T>;
  std::int64_t n = 0;
  for (; n + NP <= x.panels; n += NP) multiply_all_rows<T, left, NP>(x, n, op);
  if constexpr (NP > 1) {
    for (; n < x.panels; ++n) multiply_all_rows<T, left, 1>(x, n, op);
  }
}

template <typename T, Left left, int MR, typename Op>
[[gnu::always_inline]] inline void multiply_all_panels(const Operands<T>& x, std::int64_t m, const Op& op) {
  constexpr int NP = block_panels<T>;
  std::int64_t n = 0;
  for (; n + NP <= x.panels; n += NP) multiply_at<T, left, MR, NP>(x, m, n, op);
  if constexpr (NP > 1) {
    for (; n < x.panels; ++n) multiply_at<T, left, MR, 1>(x, m, n, op);
  }
}

/// All of A·B, a strip of A at a time: A stays in L1 while B passes from L2.
template <typename T, Left left, typename Op>
[[gnu::always_inline]] inline void multiply_by_rows(const Operands<T>& x, const Op& op) {
  constexpr int MR = block_rows<T>;
  std::int64_t m = 0;
  for (; m + MR <= x.rows; m += MR) multiply_all_panels<T, left, MR>(x, m, op);
  if constexpr (MR > 4) {
    for (; m + 4 <= x.rows; m += 4) multiply_all_panels<T, left, 4>(x, m, op);
  }
  if constexpr (MR > 2) {
    for (; m + 2 <= x.rows; m += 2) multiply_all_panels<T, left, 2>(x, m, op);
  }
}

}  // namespace maxtext::MAXTEXT_ISA
