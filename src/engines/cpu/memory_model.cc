#include "engines/cpu/memory_model.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.h"
#include "engines/cpu/placement.h"
#include "engines/cpu/scratch_bytes.h"
#include "engines/cpu/workspace.h"

namespace maxtext {

struct CpuMemoryModel::Pool {
  Placement placement{std::numeric_limits<std::int64_t>::max()};
};

CpuMemoryModel::CpuMemoryModel(int threads) : threads_(threads), pool_(std::make_shared<Pool>()) {}

std::shared_ptr<void> CpuMemoryModel::allocate(std::int64_t bytes) {
  const std::optional<std::int64_t> offset = pool_->placement.take(bytes);
  if (!offset.has_value()) fail("memory model: {} bytes do not fit 63-bit addresses", bytes);
  return {nullptr, [pool = pool_, offset = *offset, bytes](void*) { pool->placement.give_back(offset, bytes); }};
}

void CpuMemoryModel::execute(const Op& op, InputSpecs inputs) {
  const OpScratch scratch = scratch_bytes(op, inputs, threads_);
  // Ops take one workspace buffer at a time, so the pool holds one, of the largest size.
  workspace_bytes_ = std::max(workspace_bytes_, Workspace::held_bytes(scratch.workspace_bytes));
  std::vector<std::shared_ptr<void>> blocks;
  for (const std::int64_t bytes : scratch.pool_blocks) blocks.push_back(allocate(bytes));
}

std::int64_t CpuMemoryModel::pool_bytes() const { return pool_->placement.touched_bytes(); }

}  // namespace maxtext
