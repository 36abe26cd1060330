// The memory of a cpu engine without the engine: blocks are placed where its pool would place them, scratch grows as
// its workspace does. Told of every allocation and op of a program, it knows what the engine would hold.
#pragma once

#include <cstdint>
#include <memory>

#include "ops/op.h"

namespace maxtext {

/// Not thread-safe. Blocks may outlive it.
class CpuMemoryModel {
 public:
  /// `threads`: CpuEngineOptions::threads.
  explicit CpuMemoryModel(int threads);

  /// A block of the pool, free when the last copy of the result is gone.
  std::shared_ptr<void> allocate(std::int64_t bytes);
  /// An op that computes, with its outputs allocated.
  void execute(const Op& op, InputSpecs inputs);

  /// MemoryPool::touched_bytes and Workspace::bytes of the engine; their sum is CpuEngine::pooled_bytes.
  std::int64_t pool_bytes() const;
  std::int64_t workspace_bytes() const { return workspace_bytes_; }

 private:
  struct Pool;
  int threads_;
  std::shared_ptr<Pool> pool_;
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace maxtext
