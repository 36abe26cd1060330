#include "engines/cpu/memory_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/error.h"

namespace maxtext {
namespace {

constexpr std::int64_t kAlignment = 64;

std::int64_t physical_bytes() { return std::int64_t{sysconf(_SC_PHYS_PAGES)} * std::int64_t{sysconf(_SC_PAGESIZE)}; }

std::int64_t rounded(std::int64_t bytes) {
  return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace

struct MemoryPool::Arena {
  Arena() : size(2 * physical_bytes()) {
    void* address = mmap(nullptr, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) fail("cpu engine: cannot reserve {} bytes of addresses", size);
    // Huge pages are an optimisation; a kernel without them declines.
    madvise(address, static_cast<std::size_t>(size), MADV_HUGEPAGE);
    base = static_cast<std::byte*>(address);
    insert(0, size);
  }
  ~Arena() { munmap(base, static_cast<std::size_t>(size)); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void insert(std::int64_t offset, std::int64_t bytes) {
    free_by_offset.emplace(offset, bytes);
    free_by_size.emplace(bytes, offset);
  }
  void erase(std::map<std::int64_t, std::int64_t>::iterator range) {
    free_by_size.erase({range->second, range->first});
    free_by_offset.erase(range);
  }

  std::int64_t take(std::int64_t bytes) {
    const std::lock_guard lock(mutex);
    const auto best = free_by_size.lower_bound({bytes, 0});
    if (best == free_by_size.end()) fail("cpu engine: out of memory: {} bytes wanted beside {} in use", bytes, used);
    const auto [length, offset] = *best;
    erase(free_by_offset.find(offset));
    if (length > bytes) insert(offset + bytes, length - bytes);
    used += bytes;
    touched = std::max(touched, offset + bytes);
    return offset;
  }

  void give_back(std::int64_t offset, std::int64_t bytes) {
    const std::lock_guard lock(mutex);
    used -= bytes;
    auto next = free_by_offset.lower_bound(offset);
    if (next != free_by_offset.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        erase(previous);
      }
    }
    if (next != free_by_offset.end() && offset + bytes == next->first) {
      bytes += next->second;
      erase(next);
    }
    insert(offset, bytes);
  }

  std::int64_t size;
  std::byte* base = nullptr;
  mutable std::mutex mutex;
  std::map<std::int64_t, std::int64_t> free_by_offset;
  std::set<std::pair<std::int64_t, std::int64_t>> free_by_size;
  std::int64_t used = 0;
  std::int64_t touched = 0;
};

MemoryPool::MemoryPool() : arena_(std::make_shared<Arena>()) {}

std::shared_ptr<std::byte> MemoryPool::allocate(std::int64_t bytes) {
  if (bytes < 0) fail("cpu engine: cannot allocate {} bytes", bytes);
  const std::int64_t size = rounded(bytes);
  const std::int64_t offset = arena_->take(size);
  return {arena_->base + offset, [arena = arena_, offset, size](std::byte*) { arena->give_back(offset, size); }};
}

std::int64_t MemoryPool::touched_bytes() const {
  const std::lock_guard lock(arena_->mutex);
  return arena_->touched;
}

std::int64_t MemoryPool::used_bytes() const {
  const std::lock_guard lock(arena_->mutex);
  return arena_->used;
}

}  // namespace maxtext
