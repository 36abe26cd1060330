// Matrix products, row-major. f32 on oneDNN, f64 (for finite differences) as plain blocked loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engines/cpu/cpu_context.h"

namespace maxtext {

/// y [rows, outputs] = x [rows, depth] · w [outputs, depth]ᵀ. A row's result depends on that row only, bit for bit,
/// whatever `rows` and the number of threads.
void multiply_transposed(CpuContext& context, std::int64_t rows, std::int64_t outputs, std::int64_t depth,
                         const float* x, const float* w, float* y);
void multiply_transposed(CpuContext& context, std::int64_t rows, std::int64_t outputs, std::int64_t depth,
                         const double* x, const double* w, double* y);

/// The same for w in bfloat16 or float16: parts of w that stay in the cache are widened, then multiplied
/// as floats. Cost: for `rows` rows, widening takes about 20 / rows of the product's time.
void multiply_transposed(CpuContext& context, std::int64_t rows, std::int64_t outputs, std::int64_t depth,
                         const float* x, const std::byte* w, DType stored, float* y);

/// Blocks of scratch that multiply_transposed takes for a w of `dtype`.
std::vector<std::int64_t> multiply_transposed_scratch(std::int64_t rows, std::int64_t outputs, std::int64_t depth,
                                                      DType dtype);

/// y [rows, columns] (+)= a [rows, depth] · b [depth, columns]; added to y when `accumulate`. The
/// result does not depend on the number of threads.
void multiply(CpuContext& context, std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* a,
              const float* b, bool accumulate, float* y);
void multiply(CpuContext& context, std::int64_t rows, std::int64_t columns, std::int64_t depth, const double* a,
              const double* b, bool accumulate, double* y);

/// y [rows, columns] (+)= a [depth, rows]ᵀ · b [depth, columns]; added to y when `accumulate`. The result
/// does not depend on the number of threads.
void transposed_multiply(CpuContext& context, std::int64_t rows, std::int64_t columns, std::int64_t depth,
                         const float* a, const float* b, bool accumulate, float* y);
void transposed_multiply(CpuContext& context, std::int64_t rows, std::int64_t columns, std::int64_t depth,
                         const double* a, const double* b, bool accumulate, double* y);

}  // namespace maxtext
