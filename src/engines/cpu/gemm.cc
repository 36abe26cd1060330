#include "engines/cpu/gemm.h"

#include <dnnl.h>

#include <algorithm>

namespace maxtext {
namespace {

/// Below this many rows oneDNN takes other paths, whose rows round differently.
constexpr std::int64_t kLeastRows = 32;

void sgemm(char transpose_a, char transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
           std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  const dnnl_status_t status = dnnl_sgemm(transpose_a, transpose_b, m, n, k, 1.0F, a, lda, b, ldb, beta, c, ldc);
  if (status != dnnl_success) fail("oneDNN sgemm of {}x{}x{} failed with status {}", m, n, k, static_cast<int>(status));
}

}  // namespace

void multiply_transposed(CpuContext& context, std::int64_t rows, std::int64_t outputs, std::int64_t depth,
                         const float* x, const float* w, float* y) {
  if (rows == 0 || outputs == 0) return;
  if (rows >= kLeastRows) return sgemm('N', 'T', rows, outputs, depth, x, depth, w, depth, 0, y, outputs);
  const auto padded_x = scratch<float>(context, kLeastRows * depth);
  const auto padded_y = scratch<float>(context, kLeastRows * outputs);
  std::copy_n(x, rows * depth, padded_x.get());
  std::fill_n(padded_x.get() + rows * depth, (kLeastRows - rows) * depth, 0.0F);
  sgemm('N', 'T', kLeastRows, outputs, depth, padded_x.get(), depth, w, depth, 0, padded_y.get(), outputs);
  std::copy_n(padded_y.get(), rows * outputs, y);
}

void multiply_transposed(CpuContext& /*context*/, std::int64_t rows, std::int64_t outputs, std::int64_t depth,
                         const double* x, const double* w, double* y) {
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t o = 0; o < outputs; ++o) {
      double sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) sum += x[i * depth + k] * w[o * depth + k];
      y[i * outputs + o] = sum;
    }
  }
}

void multiply(CpuContext& /*context*/, std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* a,
              const float* b, bool accumulate, float* y) {
  if (rows == 0 || columns == 0) return;
  sgemm('N', 'N', rows, columns, depth, a, depth, b, columns, accumulate ? 1.0F : 0.0F, y, columns);
}

void multiply(CpuContext& /*context*/, std::int64_t rows, std::int64_t columns, std::int64_t depth, const double* a,
              const double* b, bool accumulate, double* y) {
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < rows; ++i) {
    double* out = y + i * columns;
    if (!accumulate) std::fill_n(out, columns, 0.0);
    for (std::int64_t k = 0; k < depth; ++k) {
      const double factor = a[i * depth + k];
      for (std::int64_t j = 0; j < columns; ++j) out[j] += factor * b[k * columns + j];
    }
  }
}

void transposed_multiply(CpuContext& /*context*/, std::int64_t rows, std::int64_t columns, std::int64_t depth,
                         const float* a, const float* b, bool accumulate, float* y) {
  if (rows == 0 || columns == 0) return;
  sgemm('T', 'N', rows, columns, depth, a, rows, b, columns, accumulate ? 1.0F : 0.0F, y, columns);
}

void transposed_multiply(CpuContext& /*context*/, std::int64_t rows, std::int64_t columns, std::int64_t depth,
                         const double* a, const double* b, bool accumulate, double* y) {
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < rows; ++i) {
    double* out = y + i * columns;
    if (!accumulate) std::fill_n(out, columns, 0.0);
    for (std::int64_t k = 0; k < depth; ++k) {
      const double factor = a[k * rows + i];
      for (std::int64_t j = 0; j < columns; ++j) out[j] += factor * b[k * columns + j];
    }
  }
}

}  // namespace maxtext
