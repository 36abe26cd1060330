#include "engines/cpu/gemm.h"

#include <dnnl.h>

#include <omp.h>

#include <algorithm>
#include <atomic>

namespace maxtext {
namespace {

/// With fewer rows oneDNN takes other paths, whose rows round differently (16 on AVX-512, 48 on AVX2). A multiple of
/// the rows of its tiles: 48 on AVX-512, 24 on AVX2, where the rows of a last, lower tile round differently too.
constexpr std::int64_t kLeastRows = 48;
constexpr std::int64_t kGranule = 16;
/// A thread packs its columns of the second operand; when every thread of a pair packs all of 8192 columns, a tenth of
/// the time is lost, so wide products are cut by columns first.
constexpr std::int64_t kPanelColumns = 4096;
constexpr std::int64_t kMostPanels = 8;
constexpr std::int64_t kRowsDepth = 768;

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

/// How a product is cut; parts of rows begin at multiples of `row_granule`.
struct Cuts {
  std::int64_t slabs = 1;
  std::int64_t panels = 1;
  std::int64_t most_depth = 1;
  std::int64_t row_granule = kGranule;
};

/// Start of part `index` when `count` is cut into `parts` at multiples of `granule`.
std::int64_t part_begin(std::int64_t count, std::int64_t parts, std::int64_t index, std::int64_t granule = kGranule) {
  return index == parts ? count : count * index / parts / granule * granule;
}

/// The part of `p` within [row, row + rows) × [column, column + columns), on the calling thread if it is in a team. The
/// depth is cut into parts of at most `most_depth`, added in order.
dnnl_status_t multiply_part(const Product& p, std::int64_t row, std::int64_t rows, std::int64_t column,
                            std::int64_t columns, std::int64_t most_depth) {
  const std::int64_t parts = p.depth <= most_depth ? 1 : (p.depth + most_depth - 1) / most_depth;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t first = part_begin(p.depth, parts, part);
    const std::int64_t depth = part_begin(p.depth, parts, part + 1) - first;
    const float* a = p.a + (p.transpose_a == 'N' ? row * p.stride_a + first : first * p.stride_a + row);
    const float* b = p.b + (p.transpose_b == 'N' ? first * p.stride_b + column : column * p.stride_b + first);
    const float beta = p.accumulate || part > 0 ? 1.0F : 0.0F;
    const dnnl_status_t status = dnnl_sgemm(p.transpose_a, p.transpose_b, rows, columns, depth, 1.0F, a, p.stride_a, b,
                                            p.stride_b, beta, p.y + row * p.columns + column, p.columns);
    if (status != dnnl_success) return status;
  }
  return dnnl_success;
}

/// oneDNN's own threading splits the depth for some shapes, so its sums depend on the number of threads. So each
/// thread of the team calls it for one slab of rows × panel of columns at a time, and cuts never show in the result.
/// Measured on 2 cores of a Zen 4: 93-102% of the 2048³ rate for the products of a 512-wide layer.
void multiply_in_team(const Product& p, const Cuts& cuts) {
  std::atomic<dnnl_status_t> failure{dnnl_success};
  const auto row_begin = [&](std::int64_t slab) { return part_begin(p.rows, cuts.slabs, slab, cuts.row_granule); };
  const auto column_begin = [&](std::int64_t panel) { return part_begin(p.columns, cuts.panels, panel); };
  // Always the whole team: inside a team of one oneDNN would start its own.
#pragma omp parallel for schedule(static)
  for (std::int64_t task = 0; task < cuts.slabs * cuts.panels; ++task) {
    const std::int64_t slab = task / cuts.panels;
    const std::int64_t panel = task % cuts.panels;
    const dnnl_status_t status =
        multiply_part(p, row_begin(slab), row_begin(slab + 1) - row_begin(slab), column_begin(panel),
                      column_begin(panel + 1) - column_begin(panel), cuts.most_depth);
    if (status != dnnl_success) failure = status;
  }
  if (failure != dnnl_success) {
    fail("oneDNN sgemm of {}x{}x{} failed with status {}", p.rows, p.columns, p.depth,
         static_cast<int>(failure.load()));
  }
}

bool onednn_has_avx512() {
  return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
}

/// x · wᵀ: up to a depth of 768 a row's bits are the same in every call with at least kLeastRows rows; with AVX2 only
/// up to some 192 rows, and in whole tiles (observed with oneDNN 2.6; the test of row independence would tell). So
/// slabs may follow the team (long ones are faster); panels follow the shape.
void multiply_rows(const Product& p) {
  if (p.rows == 0) return;
  const std::int64_t panels = std::clamp<std::int64_t>(p.columns / kPanelColumns, 1, kMostPanels);
  const std::int64_t threads = omp_get_max_threads();
  const std::int64_t needed = onednn_has_avx512() ? 1 : (p.rows - 1) / (2 * kLeastRows) + 1;
  const std::int64_t wanted = std::max((threads + panels - 1) / panels, needed);
  const std::int64_t most_slabs = std::max<std::int64_t>(1, p.rows / (2 * kLeastRows));
  multiply_in_team(p, {std::min(most_slabs, wanted), panels, kRowsDepth, kLeastRows});
}

/// Other forms: with few rows oneDNN reads the second operand in place and rounds differently, so slabs follow the
/// shape. Slabs of 64 to 256 rows cost nothing; their number divides among 2 or 4 threads.
void multiply_slabs(const Product& p) {
  if (p.rows == 0 || p.columns == 0) return;
  constexpr std::int64_t kSlabRows = 128;
  const std::int64_t slabs = p.rows < kSlabRows ? 1 : p.rows < 4 * kSlabRows ? 2 : (p.rows / kSlabRows + 3) / 4 * 4;
  multiply_in_team(p, {.slabs = slabs, .most_depth = p.depth});
}

/// Of `rows`, those that multiply_transposed takes as they are; the rest is padded.
std::int64_t rows_in_place(std::int64_t rows) {
  return onednn_has_avx512() && rows >= kLeastRows ? rows : rows / kLeastRows * kLeastRows;
}

}  // namespace

void multiply_transposed(CpuContext& context, std::int64_t rows, std::int64_t outputs, std::int64_t depth,
                         const float* x, const float* w, float* y) {
  if (rows == 0 || outputs == 0) return;
  const std::int64_t whole = rows_in_place(rows);
  multiply_rows({'N', 'T', whole, outputs, depth, x, depth, w, depth, false, y});
  const std::int64_t rest = rows - whole;
  if (rest == 0) return;
  const auto padded_x = scratch<float>(context, kLeastRows * depth);
  const auto padded_y = scratch<float>(context, kLeastRows * outputs);
  std::copy_n(x + whole * depth, rest * depth, padded_x.get());
  std::fill_n(padded_x.get() + rest * depth, (kLeastRows - rest) * depth, 0.0F);
  multiply_rows({'N', 'T', kLeastRows, outputs, depth, padded_x.get(), depth, w, depth, false, padded_y.get()});
  std::copy_n(padded_y.get(), rest * outputs, y + whole * outputs);
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

std::vector<std::int64_t> multiply_transposed_scratch(std::int64_t rows, std::int64_t outputs, std::int64_t depth,
                                                      DType dtype) {
  if (dtype != DType::float32 || rows == 0 || outputs == 0 || rows_in_place(rows) == rows) return {};
  const auto padded = kLeastRows * static_cast<std::int64_t>(sizeof(float));
  return {padded * depth, padded * outputs};
}

}  // namespace maxtext
