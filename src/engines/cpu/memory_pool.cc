#include "engines/cpu/memory_pool.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engines/cpu/placement.h"

namespace maxtext {
namespace {

/// Arenas begin and grow at multiples of this: one huge page.
constexpr std::int64_t kPage = std::int64_t{2} << 20;
/// What becomes writable at once, so that growing is rare.
constexpr std::int64_t kGrowth = std::int64_t{64} << 20;

std::int64_t round_up(std::int64_t bytes, std::int64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

std::int64_t physical_bytes() { return std::int64_t{sysconf(_SC_PHYS_PAGES)} * std::int64_t{sysconf(_SC_PAGESIZE)}; }

std::int64_t first_arena_bytes() {
  std::int64_t bytes = physical_bytes() / 4;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    bytes = std::min(bytes, static_cast<std::int64_t>(limit.rlim_cur / 16));
  }
  return round_up(bytes, kPage);
}

/// Addresses without memory behind them; null when the system has none.
std::byte* reserve(std::int64_t bytes) {
  void* address =
      mmap(nullptr, static_cast<std::size_t>(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

class Arena {
 public:
  /// The largest of bytes, bytes/2, ... that the system grants, but no less than `least`; nothing if none.
  static std::unique_ptr<Arena> make(std::int64_t bytes, std::int64_t least) {
    for (;;) {
      bytes = std::max(bytes, least);
      if (std::byte* base = reserve(bytes); base != nullptr) return std::make_unique<Arena>(base, bytes);
      if (bytes == least) return nullptr;
      bytes = round_up(bytes / 2, kPage);
    }
  }

  Arena(std::byte* base, std::int64_t size) : base_(base), size_(size), placement_(size) {
    // Huge pages are an optimisation; a kernel without them declines.
    madvise(base, static_cast<std::size_t>(size), MADV_HUGEPAGE);
  }
  ~Arena() { munmap(base_, static_cast<std::size_t>(size_)); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::int64_t size() const { return size_; }
  const Placement& placement() const { return placement_; }
  std::byte* at(std::int64_t offset) const { return base_ + offset; }

  std::optional<std::int64_t> take(std::int64_t bytes) {
    const std::optional<std::int64_t> offset = placement_.take(bytes);
    if (!offset.has_value() || make_writable(*offset + Placement::rounded(bytes))) return offset;
    placement_.give_back(*offset, bytes);
    return std::nullopt;
  }

  void give_back(std::int64_t offset, std::int64_t bytes) { placement_.give_back(offset, bytes); }

 private:
  bool make_writable(std::int64_t end) {
    for (const std::int64_t step : {kGrowth, kPage}) {
      if (end <= writable_) return true;
      const std::int64_t more = std::min(round_up(end, step), size_) - writable_;
      if (mprotect(base_ + writable_, static_cast<std::size_t>(more), PROT_READ | PROT_WRITE) == 0) writable_ += more;
    }
    return end <= writable_;
  }

  std::byte* base_;
  std::int64_t size_;
  std::int64_t writable_ = 0;
  Placement placement_;
};

}  // namespace

struct MemoryPool::State {
  struct Block {
    Arena* arena = nullptr;
    std::int64_t offset = 0;
  };

  Block take(std::int64_t bytes) {
    const std::lock_guard lock(mutex);
    for (const std::unique_ptr<Arena>& arena : arenas) {
      if (const std::optional<std::int64_t> offset = arena->take(bytes)) return {arena.get(), *offset};
    }
    if (add_arena(bytes)) {
      if (const std::optional<std::int64_t> offset = arenas.back()->take(bytes)) return {arenas.back().get(), *offset};
      arenas.pop_back();
    }
    fail("cpu engine: out of memory: {} bytes wanted beside {} in use", Placement::rounded(bytes), used_bytes());
  }

  bool add_arena(std::int64_t bytes) {
    std::int64_t reserved = 0;
    for (const std::unique_ptr<Arena>& arena : arenas) reserved += arena->size();
    const std::int64_t most = 2 * physical_bytes() - reserved;
    if (bytes > most - kPage) return false;
    const std::int64_t wanted = std::min(reserved == 0 ? first_arena_bytes() : reserved, most);
    std::unique_ptr<Arena> arena = Arena::make(wanted / kPage * kPage, round_up(Placement::rounded(bytes), kPage));
    if (arena == nullptr) return false;
    arenas.push_back(std::move(arena));
    return true;
  }

  void give_back(const Block& block, std::int64_t bytes) {
    const std::lock_guard lock(mutex);
    block.arena->give_back(block.offset, bytes);
  }

  std::int64_t used_bytes() const {
    std::int64_t used = 0;
    for (const std::unique_ptr<Arena>& arena : arenas) used += arena->placement().used_bytes();
    return used;
  }

  mutable std::mutex mutex;
  std::vector<std::unique_ptr<Arena>> arenas;
};

MemoryPool::MemoryPool() : state_(std::make_shared<State>()) {}

std::shared_ptr<std::byte> MemoryPool::allocate(std::int64_t bytes) {
  if (bytes < 0) fail("cpu engine: cannot allocate {} bytes", bytes);
  const State::Block block = state_->take(bytes);
  return {block.arena->at(block.offset),
          [state = state_, block, bytes](std::byte*) { state->give_back(block, bytes); }};
}

std::int64_t MemoryPool::touched_bytes() const {
  const std::lock_guard lock(state_->mutex);
  std::int64_t touched = 0;
  for (const std::unique_ptr<Arena>& arena : state_->arenas) touched += arena->placement().touched_bytes();
  return touched;
}

std::int64_t MemoryPool::used_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->used_bytes();
}

}  // namespace maxtext
