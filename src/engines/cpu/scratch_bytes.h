// Memory that ops of the cpu engine take beside their inputs and outputs, from shapes alone: the kernels measure
// themselves with the code that cuts their scratch.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/op.h"

namespace maxtext {

/// The most that one op takes for any data. Tables of an op that are small beside its inputs (places of tokens, partial
/// sums) are not counted.
struct OpScratch {
  /// Of the device's Workspace, which keeps its largest buffer.
  std::int64_t workspace_bytes = 0;
  /// Blocks of the device's MemoryPool, all in use at once, free after the op.
  std::vector<std::int64_t> pool_blocks;
};

/// `threads`: CpuEngineOptions::threads.
OpScratch scratch_bytes(const Op& op, InputSpecs inputs, int threads);

}  // namespace maxtext
