// Live and peak bytes of tensor storage, by kind. Every engine reports its allocations here, in the same order, so the
// peak predicted by the dry engine is the one an eager engine reaches.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

namespace maxtext {

enum class MemoryKind { parameters, optimizer, gradients, gathered_parameters, activations, inputs };
inline constexpr int kMemoryKindCount = 6;
std::string_view memory_kind_name(MemoryKind kind);

using MemoryByKind = std::array<std::int64_t, kMemoryKindCount>;

class MemoryMeter {
 public:
  MemoryMeter();

  /// The kind that allocations count as, until changed.
  MemoryKind kind() const;
  void set_kind(MemoryKind kind);

  /// A token to be kept by a storage: counts `bytes` as live until destroyed (also by another thread).
  std::shared_ptr<void> track(std::int64_t bytes);
  /// The same for memory that is somebody else's: a figure of its own, not a part of the others.
  std::shared_ptr<void> track_borrowed(std::int64_t bytes);

  std::int64_t live_bytes() const;
  std::int64_t peak_bytes() const;
  std::int64_t borrowed_bytes() const;
  MemoryByKind live_by_kind() const;
  /// What was live when the peak was reached.
  MemoryByKind peak_by_kind() const;
  /// Starts a new peak from what is live now.
  void reset_peak();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Sets a meter's kind for a scope.
class MemoryKindScope {
 public:
  MemoryKindScope(MemoryMeter& meter, MemoryKind kind) : meter_(meter), previous_(meter.kind()) {
    meter.set_kind(kind);
  }
  ~MemoryKindScope() { meter_.set_kind(previous_); }
  MemoryKindScope(const MemoryKindScope&) = delete;
  MemoryKindScope& operator=(const MemoryKindScope&) = delete;

 private:
  MemoryMeter& meter_;
  MemoryKind previous_;
};

}  // namespace maxtext
