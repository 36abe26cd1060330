#include "engines/cpu/few_rows.h"

#include <omp.h>

#include "engines/cpu/kernels/weight_rows.h"

namespace maxtext {
namespace {

/// Multiply-adds that take as long as waking a team: the calling thread does some 25 a nanosecond, and alone it has
/// nothing to wait for.
constexpr std::int64_t kSerialProducts = 65536;

std::int64_t packed_depth(std::int64_t depth) {
  return (depth + packed_row_step - 1) / packed_row_step * packed_row_step;
}

}  // namespace

std::int64_t few_rows_workspace(std::int64_t rows, std::int64_t depth) {
  return rows * packed_depth(depth) * static_cast<std::int64_t>(sizeof(float));
}

void multiply_few_rows(CpuContext& context, std::int64_t rows, std::int64_t outputs, std::int64_t depth, const float* x,
                       const std::byte* w, DType stored, float* y) {
  const WeightRows& kernels = weight_rows(active_instruction_set(), stored);
  const Workspace::Lease packed = context.workspace.take(few_rows_workspace(rows, depth));
  const FewRowsProduct product{rows, outputs, depth, reinterpret_cast<float*>(packed.data()), packed_depth(depth),
                               w,    y};
  for (std::int64_t row = 0; row < rows; ++row) {
    kernels.pack_row(x + row * depth, depth, reinterpret_cast<float*>(packed.data()) + row * product.packed_depth);
  }
  if (rows * outputs * depth <= kSerialProducts) return kernels.multiply(product, 0, outputs);
  // Parts differ by one output at most: what a thread reads decides its time.
  const std::int64_t parts = omp_get_max_threads();
#pragma omp parallel for schedule(static)
  for (std::int64_t part = 0; part < parts; ++part) {
    kernels.multiply(product, outputs * part / parts, outputs * (part + 1) / parts);
  }
}

}  // namespace maxtext
