// Memory of one device. Steps allocate and free the same sizes again and again, and a page fault costs more than
// most elementwise ops: pages, once touched, stay in the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace maxtext {

/// One range of reserved addresses; blocks are placed best fit, lowest address first, and freed neighbours join, so
/// the touched part follows the peak of live bytes and not the sum over sizes. Thread-safe. Blocks outlive the pool.
class MemoryPool {
 public:
  MemoryPool();

  /// Uninitialised memory, aligned to 64 bytes. Throws Error naming the size when the machine's memory cannot hold it.
  std::shared_ptr<std::byte> allocate(std::int64_t bytes);

  /// The highest end of any block so far: what the pool can hold of physical memory.
  std::int64_t touched_bytes() const;
  /// Bytes of blocks in use, with padding.
  std::int64_t used_bytes() const;

 private:
  struct Arena;
  std::shared_ptr<Arena> arena_;
};

}  // namespace maxtext
