#include "engines/cpu/gemm.h"

#include <dnnl.h>

#include <omp.h>

#include <algorithm>
#include <atomic>

#include "engines/cpu/kernels/weight_rows.h"
#include "engines/cpu/ranges.h"

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
/// Columns that are worth a thread's packing of all rows.
constexpr std::int64_t kLeastColumns = 64;
constexpr std::int64_t kRowsDepth = 768;
/// Of a weight that is widened, what lies in the cache at a time, as floats.
constexpr std::int64_t kWidenedBytes = std::int64_t{8} << 20;

struct Product {
  char transpose_a, transpose_b;
  std::int64_t rows, columns, depth;
  const float* a;
  std::int64_t stride_a;
  const float* b;
  std::int64_t stride_b;
  bool accumulate;
  float* y;
  std::int64_t stride_y;
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
                                            p.stride_b, beta, p.y + row * p.stride_y + column, p.stride_y);
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
/// slabs may follow the team (long ones are faster). Panels follow the shape, but for fewer rows than the team needs:
/// up to 192 rows, panels that begin at multiples of 16 give the same bits, too.
void multiply_rows(const Product& p) {
  if (p.rows == 0) return;
  std::int64_t panels = std::clamp<std::int64_t>(p.columns / kPanelColumns, 1, kMostPanels);
  const std::int64_t threads = omp_get_max_threads();
  const std::int64_t needed = onednn_has_avx512() ? 1 : (p.rows - 1) / (2 * kLeastRows) + 1;
  const std::int64_t wanted = std::max((threads + panels - 1) / panels, needed);
  const std::int64_t most_slabs = std::max<std::int64_t>(1, p.rows / (2 * kLeastRows));
  if (most_slabs == 1) {
    panels = std::max(panels, std::min(threads, p.columns / kLeastColumns));
  }
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

/// x · wᵀ for parts of w, rows of x that oneDNN must not see alone being padded.
class RowProduct {
 public:
  /// Parts of w have at most `most_columns` rows.
  RowProduct(CpuContext& context, std::int64_t rows, std::int64_t depth, std::int64_t most_columns, const float* x)
      : depth_(depth), x_(x), whole_(rows_in_place(rows)), rest_(rows - whole_) {
    if (rest_ == 0) return;
    padded_x_ = scratch<float>(context, kLeastRows * depth);
    padded_y_ = scratch<float>(context, kLeastRows * most_columns);
    std::copy_n(x + whole_ * depth, rest_ * depth, padded_x_.get());
    std::fill_n(padded_x_.get() + rest_ * depth, (kLeastRows - rest_) * depth, 0.0F);
  }

  /// y [rows, columns], its rows `stride` apart, = x · wᵀ.
  void multiply(const float* w, std::int64_t columns, float* y, std::int64_t stride) const {
    multiply_rows({'N', 'T', whole_, columns, depth_, x_, depth_, w, depth_, false, y, stride});
    if (rest_ == 0) return;
    float* const padded = padded_y_.get();
    multiply_rows({'N', 'T', kLeastRows, columns, depth_, padded_x_.get(), depth_, w, depth_, false, padded, columns});
    for (std::int64_t row = 0; row < rest_; ++row) {
      std::copy_n(padded + row * columns, columns, y + (whole_ + row) * stride);
    }
  }

 private:
  std::int64_t depth_;
  const float* x_;
  std::int64_t whole_;
  std::int64_t rest_;
  std::shared_ptr<float> padded_x_;
  std::shared_ptr<float> padded_y_;
};

/// Columns of a part that is widened.
std::int64_t widened_columns(std::int64_t outputs, std::int64_t depth) {
  const std::int64_t affordable = kWidenedBytes / (depth * static_cast<std::int64_t>(sizeof(float))) / 64 * 64;
  return std::min(outputs, std::max<std::int64_t>(affordable, 64));
}

}  // namespace

void multiply_transposed(CpuContext& context, std::int64_t rows, std::int64_t outputs, std::int64_t depth,
                         const float* x, const float* w, float* y) {
  if (rows == 0 || outputs == 0) return;
  RowProduct(context, rows, depth, outputs, x).multiply(w, outputs, y, outputs);
}

void multiply_transposed(CpuContext& context, std::int64_t rows, std::int64_t outputs, std::int64_t depth,
                         const float* x, const std::byte* w, DType stored, float* y) {
  if (rows == 0 || outputs == 0) return;
  const WeightRows& kernels = weight_rows(active_instruction_set(), stored);
  const std::int64_t row_bytes = depth * dtype_size(stored);
  const std::int64_t most_columns = widened_columns(outputs, std::max<std::int64_t>(depth, 1));
  const RowProduct product(context, rows, depth, most_columns, x);
  const auto widened = scratch<float>(context, most_columns * depth);
  for (std::int64_t first = 0; first < outputs; first += most_columns) {
    const std::int64_t columns = std::min(most_columns, outputs - first);
    for_rows(columns, depth, [&](std::int64_t column) {
      kernels.widen(w + (first + column) * row_bytes, depth, widened.get() + column * depth);
    });
    product.multiply(widened.get(), columns, y + first, outputs);
  }
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
  multiply_slabs({'N', 'N', rows, columns, depth, a, depth, b, columns, accumulate, y, columns});
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
  multiply_slabs({'T', 'N', rows, columns, depth, a, rows, b, columns, accumulate, y, columns});
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
  if (dtype == DType::float64 || rows == 0 || outputs == 0) return {};
  constexpr auto size = static_cast<std::int64_t>(sizeof(float));
  const bool widens = dtype != DType::float32;
  const std::int64_t columns = widens ? widened_columns(outputs, std::max<std::int64_t>(depth, 1)) : outputs;
  std::vector<std::int64_t> blocks;
  if (rows_in_place(rows) != rows) blocks = {kLeastRows * depth * size, kLeastRows * columns * size};
  if (widens) blocks.push_back(columns * depth * size);
  return blocks;
}

}  // namespace maxtext
