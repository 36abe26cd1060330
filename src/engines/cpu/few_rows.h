// Products of few rows with a weight: decoding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engines/cpu/cpu_context.h"

namespace maxtext {

/// A product of more rows is faster as a matrix product, even one that widens its weight first.
constexpr std::int64_t most_few_rows = 16;

/// y [rows, outputs] = x [rows, depth] · w [outputs, depth]ᵀ for at most most_few_rows rows, w being float32, bfloat16
/// or float16. The weight is read once, each thread reading a contiguous part of it; sums are float32 in an order fixed
/// by the depth, so a row's result does not depend on the other rows or on the number of threads.
void multiply_few_rows(CpuContext& context, std::int64_t rows, std::int64_t outputs, std::int64_t depth, const float* x,
                       const std::byte* w, DType stored, float* y);

/// Bytes of the workspace that it takes.
std::int64_t few_rows_workspace(std::int64_t rows, std::int64_t depth);

}  // namespace maxtext
