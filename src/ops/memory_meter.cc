#include "ops/memory_meter.h"

#include <mutex>

#include "base/error.h"

namespace maxtext {

std::string_view memory_kind_name(MemoryKind kind) {
  static constexpr std::array<std::string_view, kMemoryKindCount> kNames{
      "parameters", "optimizer", "gradients", "gathered_parameters", "activations", "inputs"};
  return kNames.at(static_cast<std::size_t>(kind));
}

struct MemoryMeter::State {
  mutable std::mutex mutex;
  MemoryKind kind = MemoryKind::activations;
  std::int64_t live = 0;
  std::int64_t peak = 0;
  std::int64_t borrowed = 0;
  MemoryByKind by_kind{};
  MemoryByKind peak_by_kind{};

  void add(MemoryKind as, std::int64_t bytes) {
    const std::lock_guard lock(mutex);
    live += bytes;
    by_kind[static_cast<std::size_t>(as)] += bytes;
    if (live > peak) {
      peak = live;
      peak_by_kind = by_kind;
    }
  }

  void add_borrowed(std::int64_t bytes) {
    const std::lock_guard lock(mutex);
    borrowed += bytes;
  }
};

MemoryMeter::MemoryMeter() : state_(std::make_shared<State>()) {}

MemoryKind MemoryMeter::kind() const {
  const std::lock_guard lock(state_->mutex);
  return state_->kind;
}

void MemoryMeter::set_kind(MemoryKind kind) {
  const std::lock_guard lock(state_->mutex);
  state_->kind = kind;
}

std::shared_ptr<void> MemoryMeter::track(std::int64_t bytes) {
  if (bytes < 0) fail("memory meter: cannot track {} bytes", bytes);
  const MemoryKind as = kind();
  state_->add(as, bytes);
  // The state is shared: a storage may outlive its engine.
  return {static_cast<void*>(state_.get()), [state = state_, as, bytes](void*) { state->add(as, -bytes); }};
}

std::shared_ptr<void> MemoryMeter::track_borrowed(std::int64_t bytes) {
  if (bytes < 0) fail("memory meter: cannot track {} bytes", bytes);
  state_->add_borrowed(bytes);
  return {static_cast<void*>(state_.get()), [state = state_, bytes](void*) { state->add_borrowed(-bytes); }};
}

std::int64_t MemoryMeter::live_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->live;
}

std::int64_t MemoryMeter::peak_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->peak;
}

std::int64_t MemoryMeter::borrowed_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->borrowed;
}

MemoryByKind MemoryMeter::live_by_kind() const {
  const std::lock_guard lock(state_->mutex);
  return state_->by_kind;
}

MemoryByKind MemoryMeter::peak_by_kind() const {
  const std::lock_guard lock(state_->mutex);
  return state_->peak_by_kind;
}

void MemoryMeter::reset_peak() {
  const std::lock_guard lock(state_->mutex);
  state_->peak = state_->live;
  state_->peak_by_kind = state_->by_kind;
}

}  // namespace maxtext
