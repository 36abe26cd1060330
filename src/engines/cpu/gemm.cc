#include "engines/cpu/gemm.h"

#include <dnnl.h>

#include <omp.h>

#include <algorithm>
#include <atomic>

namespace maxtext {
namespace {

/// Below 16 rows oneDNN takes other paths, whose rows round differently.
constexpr std::int64_t kLeastRows = 32;
constexpr std::int64_t kRowGranule = 16;
/// A thread packs its columns of the second operand; when every thread of a pair packs all of 8192 columns, a tenth of
/// the time is lost, so wide products are cut by columns first.
constexpr std::int64_t kPanelColumns = 4096;
constexpr std::int64_t kMostPanels = 8;

struct Product {
  char transpose_a, transpose_b;
  std::int64_t rows, columns, depth;
  const float* a;
  std::int64_t stride_a;
  const float* b;
  std::int64_t stride_b;
  bool accumulate;
  float* y;
};

/// The part of `p` within [row, row + rows) × [column, column + columns), on the calling thread if it is in a team.
dnnl_status_t multiply_part(const Product& p, std::int64_t row, std::int64_t rows, std::int64_t column,
                            std::int64_t columns) {
  const float* a = p.a + (p.transpose_a == 'N' ? row * p.stride_a : row);
  const float* b = p.b + (p.transpose_b == 'N' ? column : column * p.stride_b);
  return dnnl_sgemm(p.transpose_a, p.transpose_b, rows, columns, p.depth, 1.0F, a, p.stride_a, b, p.stride_b,
                    p.accumulate ? 1.0F : 0.0F, p.y + row * p.columns + column, p.columns);
}

/// Start of part `index` when `count` is cut into `parts` at multiples of kRowGranule.
std::int64_t part_begin(std::int64_t count, std::int64_t parts, std::int64_t index) {
  return index == parts ? count : count * index / parts / kRowGranule * kRowGranule;
}

/// oneDNN's own threading splits the depth for some shapes, so its sums depend on the number of threads. So each
/// thread of the team calls it for one slab of rows × panel of columns at a time, and cuts never show in the result.
/// Measured on 2 cores of a Zen 4: 93-102% of the 2048³ rate for the products of a 512-wide layer.
void multiply_in_team(const Product& p, std::int64_t slabs, std::int64_t panels) {
  std::atomic<dnnl_status_t> failure{dnnl_success};
  // Always the whole team: inside a team of one oneDNN would start its own.
#pragma omp parallel for schedule(static)
  for (std::int64_t task = 0; task < slabs * panels; ++task) {
    const std::int64_t row = part_begin(p.rows, slabs, task / panels);
    const std::int64_t column = part_begin(p.columns, panels, task % panels);
    const dnnl_status_t status = multiply_part(p, row, part_begin(p.rows, slabs, task / panels + 1) - row, column,
                                               part_begin(p.columns, panels, task % panels + 1) - column);
    if (status != dnnl_success) failure = status;
  }
  if (failure != dnnl_success) {
    fail("oneDNN sgemm of {}x{}x{} failed with status {}", p.rows, p.columns, p.depth,
         static_cast<int>(failure.load()));
  }
}

/// x · wᵀ: oneDNN packs both operands, and a row's bits are the same in every call with at least 16 rows. Slabs may
/// follow the team (long ones are faster); panels follow the shape.
void multiply_rows(const Product& p) {
  const std::int64_t panels = std::clamp<std::int64_t>(p.columns / kPanelColumns, 1, kMostPanels);
  const std::int64_t most_slabs = std::max<std::int64_t>(1, p.rows / kLeastRows);
  const std::int64_t threads = omp_get_max_threads();
  multiply_in_team(p, std::min(most_slabs, (threads + panels - 1) / panels), panels);
}

/// Other forms: with few rows oneDNN reads the second operand in place and rounds differently, so slabs follow the
/// shape. Slabs of 64 to 256 rows cost nothing; their number divides among 2 or 4 threads.
void multiply_slabs(const Product& p) {
  if (p.rows == 0 || p.columns == 0) return;
  constexpr std::int64_t kSlabRows = 128;
  const std::int64_t slabs = p.rows < kSlabRows ? 1 : p.rows < 4 * kSlabRows ? 2 : (p.rows / kSlabRows + 3) / 4 * 4;
  multiply_in_team(p, slabs, 1);
}

}  // namespace

void multiply_transposed(CpuContext& context, std::int64_t rows, std::int64_t outputs, std::int64_t depth,
                         const float* x, const float* w, float* y) {
  if (rows == 0 || outputs == 0) return;
  if (rows >= kLeastRows) return multiply_rows({'N', 'T', rows, outputs, depth, x, depth, w, depth, false, y});
  const auto padded_x = scratch<float>(context, kLeastRows * depth);
  const auto padded_y = scratch<float>(context, kLeastRows * outputs);
  std::copy_n(x, rows * depth, padded_x.get());
  std::fill_n(padded_x.get() + rows * depth, (kLeastRows - rows) * depth, 0.0F);
  multiply_rows({'N', 'T', kLeastRows, outputs, depth, padded_x.get(), depth, w, depth, false, padded_y.get()});
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
  multiply_slabs({'N', 'N', rows, columns, depth, a, depth, b, columns, accumulate, y});
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
  multiply_slabs({'T', 'N', rows, columns, depth, a, rows, b, columns, accumulate, y});
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
