// What the ops of the cpu engine share.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "engines/cpu/cpu_storage.h"
#include "engines/cpu/memory_pool.h"
#include "engines/cpu/workspace.h"
#include "mesh/communicator.h"
#include "ops/op.h"

namespace maxtext {

struct CpuContext {
  MemoryPool& pool;
  Communicator& communicator;
  /// Scratch that is taken and given back within one op, a buffer at a time.
  Workspace& workspace;
  /// CpuEngineOptions::fast_few_rows.
  bool fast_few_rows = false;
};

/// Inputs and outputs of one op.
using Inputs = std::span<const Tensor>;
using Outputs = std::span<Tensor>;

/// Uninitialised scratch memory of `count` elements, from the pool.
template <typename T>
std::shared_ptr<T> scratch(CpuContext& context, std::int64_t count) {
  std::shared_ptr<std::byte> block = context.pool.allocate(count * static_cast<std::int64_t>(sizeof(T)));
  return {block, reinterpret_cast<T*>(block.get())};
}

/// function(float{}) or function(double{}); throws Error for other dtypes.
template <typename Function>
void with_real(std::string_view op, DType dtype, Function&& function) {
  if (dtype == DType::float32) return std::forward<Function>(function)(float{});
  if (dtype == DType::float64) return std::forward<Function>(function)(double{});
  fail("{}: the cpu engine computes in float32 and float64, not in {}", op, dtype_name(dtype));
}

}  // namespace maxtext
