#include "testing_model/clock_engine.h"

#include <fmt/format.h>

#include <algorithm>

namespace maxtext::testing {
namespace {

class ClockStorage final : public Storage {
 public:
  ClockStorage(std::int64_t bytes, std::shared_ptr<void> token) : Storage(bytes), token_(std::move(token)) {}

  double ready = 0;
  std::string collective;
  std::shared_ptr<void> gathered;

 private:
  std::shared_ptr<void> token_;
};

ClockStorage& storage_of(const Tensor& tensor) { return static_cast<ClockStorage&>(*tensor.storage()); }

bool is_collective(const Op& op) {
  return std::holds_alternative<AllGather>(op) || std::holds_alternative<ReduceScatter>(op) ||
         std::holds_alternative<AllReduce>(op);
}

}  // namespace

Tensor ClockEngine::allocate(const TensorSpec& spec) {
  Tensor tensor(spec, std::make_shared<ClockStorage>(spec.bytes(), memory().track(spec.bytes())));
  const MemoryByKind live = memory().live_by_kind();
  for (std::size_t k = 0; k < live.size(); ++k) most_bytes_[k] = std::max(most_bytes_[k], live[k]);
  return tensor;
}

int ClockEngine::most_gathered(AxisSet axes) const {
  const auto found = gathered_.find(axes.bits());
  return found == gathered_.end() ? 0 : found->second->most;
}

int ClockEngine::runs(std::string_view op) const {
  const auto found = runs_.find(op);
  return found == runs_.end() ? 0 : found->second;
}

Tensor ClockEngine::allocate_shard(const TensorSpec& spec, AxisSet axes) {
  return allocate(shard_spec(spec, mesh_.size(axes)));
}

Tensor ClockEngine::input(const TensorSpec& spec, std::span<const std::byte> /*bytes*/) { return allocate(spec); }

void ClockEngine::read(const Tensor& tensor, std::span<std::byte> /*destination*/) { wait_for(tensor, "read"); }

void ClockEngine::write(const Tensor& tensor, std::span<const std::byte> /*source*/) { wait_for(tensor, "write"); }

void ClockEngine::wait_for(const Tensor& tensor, std::string_view reader) {
  const ClockStorage& storage = storage_of(tensor);
  if (storage.ready <= now_) return;
  waits_.push_back(fmt::format("{} waits {:.4f} s for {}", reader, storage.ready - now_, storage.collective));
  now_ = storage.ready;
}

void ClockEngine::execute(const Op& op, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  std::vector<TensorSpec> specs;
  for (const Tensor& input : inputs) {
    wait_for(input, op_name(op));
    specs.push_back(input.spec());
  }
  ++runs_[std::string(op_name(op))];
  if (const auto* gather = std::get_if<AllGather>(&op)) {
    std::shared_ptr<Gathered>& count = gathered_[gather->axes.bits()];
    if (count == nullptr) count = std::make_shared<Gathered>();
    count->most = std::max(count->most, ++count->live);
    const std::shared_ptr<void> token(count.get(), [count](void*) { --count->live; });
    for (const Tensor& output : outputs) storage_of(output).gathered = token;
  }
  if (is_collective(op)) {
    ++collectives_;
    for (const Tensor& output : outputs) {
      storage_of(output).ready = now_ + options_.collective_seconds;
      storage_of(output).collective = fmt::format("{} of {}", op_name(op), to_string(output.spec()));
    }
    return;
  }
  const double seconds = maxtext::flops(op, specs) / options_.flops_per_second;
  now_ += seconds;
  busy_ += seconds;
}

}  // namespace maxtext::testing
