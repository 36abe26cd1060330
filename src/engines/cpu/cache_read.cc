#include <algorithm>
#include <cstdint>

#include "engines/cpu/run.h"
#include "tensor/half.h"

namespace maxtext {

void run(CpuContext& /*context*/, const CacheRead& op, Inputs inputs, Outputs outputs) {
  const Tensor& cache = inputs[0];
  const std::int64_t head_dim = cache.dim(3);
  const std::int64_t first = op.kv_head * cache.dim(2);  // row
  const auto size = static_cast<std::size_t>(dtype_size(cache.dtype()));
  float* out = data<float>(outputs[0]);
  const auto row_bytes = static_cast<std::size_t>(head_dim) * size;
  const auto* rows = data<std::byte>(cache) + static_cast<std::size_t>(first) * row_bytes;
  const bool quantised = cache.dtype() == DType::int8;
  const float* scales = quantised ? data<float>(inputs[1]) + first : nullptr;
#pragma omp parallel for schedule(static)
  for (std::int64_t row = 0; row < op.length; ++row) {
    const std::span<float> to(out + row * head_dim, static_cast<std::size_t>(head_dim));
    convert_to_float({rows + static_cast<std::size_t>(row) * row_bytes, row_bytes}, cache.dtype(), to);
    if (!quantised) continue;
    for (float& value : to) value *= scales[row];
  }
}

}  // namespace maxtext
