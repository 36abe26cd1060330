// Memory of one device. Steps allocate and free the same sizes again and again, and a page fault costs more than
// most elementwise ops: pages, once touched, stay in the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace maxtext {

/// Arenas of reserved addresses; within one, blocks are placed best fit, lowest address first, and freed neighbours
/// join (Placement), so the touched part follows the peak of live bytes and not the sum over sizes.
///
/// Addresses are scarce where the process is limited to some (`ulimit -v`) or many devices share it, so a pool reserves
/// a quarter of the machine's memory, or a sixteenth of the limit, and further arenas, each as large as all before,
/// when that is full; where the system refuses, it takes half as much, down to what is wanted. Reserved addresses
/// cannot be written until they are used first, so a system that does not overcommit memory counts what is touched
/// only. Thread-safe. Blocks outlive the pool.
class MemoryPool {
 public:
  MemoryPool();

  /// Uninitialised memory, aligned to 64 bytes. Throws Error naming the size when the system refuses it, or arenas
  /// would exceed twice the machine's memory.
  std::shared_ptr<std::byte> allocate(std::int64_t bytes);

  /// The highest end of any block so far, summed over arenas: what the pool can hold of physical memory.
  std::int64_t touched_bytes() const;
  /// Bytes of blocks in use, with padding.
  std::int64_t used_bytes() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace maxtext
