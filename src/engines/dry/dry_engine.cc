#include "engines/dry/dry_engine.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"

namespace maxtext {
namespace {

/// What a collective under way keeps alive.
using KeptBlocks = std::vector<std::shared_ptr<void>>;

class DryStorage final : public Storage {
 public:
  DryStorage(std::int64_t bytes, std::shared_ptr<void> token, std::shared_ptr<void> block, AxisSet shard_axes = {})
      : Storage(bytes), token_(std::move(token)), block_(std::move(block)), shard_axes_(shard_axes) {}

  /// The axes over which it is one part of memory that the whole group sees; none for ordinary memory.
  AxisSet shard_axes() const { return shard_axes_; }

  const std::shared_ptr<void>& block() const { return block_; }
  /// The contents arrive with a collective, whose memory is kept until the first of its results is waited for.
  void set_pending(std::shared_ptr<KeptBlocks> kept) { pending_ = std::move(kept); }
  void wait() override {
    if (pending_ == nullptr) return;
    pending_->clear();
    pending_.reset();
  }

 private:
  std::shared_ptr<void> token_;
  std::shared_ptr<void> block_;
  AxisSet shard_axes_;
  std::shared_ptr<KeptBlocks> pending_;
};

DryStorage& storage_of(const Tensor& tensor) { return static_cast<DryStorage&>(*tensor.storage()); }

/// A collective reads and writes memory after its tensors are dropped, until it is waited for.
void keep_until_waited(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const auto kept = std::make_shared<KeptBlocks>();
  for (const Tensor& input : inputs) kept->push_back(storage_of(input).block());
  for (const Tensor& output : outputs) {
    kept->push_back(storage_of(output).block());
    storage_of(output).set_pending(kept);
  }
}

ElementType element_of(DType dtype) { return dtype == DType::float64 ? ElementType::float64 : ElementType::float32; }

}  // namespace

DryEngine::DryEngine(Mesh mesh, int device, DryEngineOptions options)
    : mesh_(mesh), device_(device), options_(std::move(options)) {
  if (device < 0 || device >= mesh_.device_count()) {
    fail("dry engine: device {} is not in a mesh of {}", device, mesh_.device_count());
  }
}

Tensor DryEngine::allocate(const TensorSpec& spec) {
  std::shared_ptr<void> block = options_.on_allocate ? options_.on_allocate(spec.bytes()) : nullptr;
  return {spec, std::make_shared<DryStorage>(spec.bytes(), memory().track(spec.bytes()), std::move(block))};
}

Tensor DryEngine::allocate_shard(const TensorSpec& spec, AxisSet axes) {
  const int group_size = mesh_.size(axes);
  const TensorSpec part = shard_spec(spec, group_size);
  if (!options_.shares_memory || group_size == 1) return allocate(part);
  shared_bytes_ += part.bytes();
  return {part, std::make_shared<DryStorage>(part.bytes(), memory().track(part.bytes()), nullptr, axes)};
}

Tensor DryEngine::input(const TensorSpec& spec, std::span<const std::byte> /*bytes*/) { return allocate(spec); }

Tensor DryEngine::borrow(const TensorSpec& spec, std::span<const std::byte> /*bytes*/,
                         std::shared_ptr<const void> /*owner*/) {
  auto storage = std::make_shared<DryStorage>(spec.bytes(), memory().track_borrowed(spec.bytes()), nullptr);
  storage->set_read_only();
  return {spec, std::move(storage)};
}

void DryEngine::read(const Tensor& tensor, std::span<std::byte> /*destination*/) {
  if (!tensor.defined()) fail("read: the tensor is undefined");
}

void DryEngine::write(const Tensor& tensor, std::span<const std::byte> /*source*/) {
  if (!tensor.defined()) fail("write: the tensor is undefined");
  if (tensor.storage()->read_only()) fail("write: the memory of {} is borrowed", to_string(tensor.spec()));
}

void DryEngine::reset_records() {
  collectives_.clear();
  counters_ = {};
  flops_by_op_.clear();
}

void DryEngine::execute(const Op& op, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  std::vector<TensorSpec> specs;
  for (const Tensor& input : inputs) specs.push_back(input.spec());
  for (const Tensor& input : inputs) input.storage()->wait();
  if (options_.on_execute) options_.on_execute(op, specs);
  if (const double count = maxtext::flops(op, specs); count > 0) flops_by_op_[std::string(op_name(op))] += count;
  CollectiveRequest request;
  if (const auto* gather = std::get_if<AllGather>(&op)) {
    request.kind = CollectiveKind::all_gather;
    request.axes = gather->axes;
    record(std::move(request), inputs);
  } else if (const auto* scatter = std::get_if<ReduceScatter>(&op)) {
    request.kind = CollectiveKind::reduce_scatter;
    request.axes = scatter->axes;
    request.element = element_of(inputs[0].dtype());
    record(std::move(request), outputs);
  } else if (const auto* reduce = std::get_if<AllReduce>(&op)) {
    request.kind = CollectiveKind::all_reduce;
    request.axes = reduce->axes;
    request.element = element_of(inputs[0].dtype());
    record(std::move(request), inputs);
  }
  const bool travels = std::holds_alternative<AllGather>(op) || std::holds_alternative<ReduceScatter>(op) ||
                       std::holds_alternative<AllReduce>(op);
  if (travels && mesh_.size(collectives_.back().axes) > 1) keep_until_waited(inputs, outputs);
}

std::vector<Tensor> DryEngine::gather_views(const AllGather& gather, std::span<const Tensor> inputs) {
  const auto whole_shard = [&](const Tensor& input) {
    const auto& storage = static_cast<const DryStorage&>(*input.storage());
    return storage.shard_axes() == gather.axes && storage.bytes() == input.spec().bytes();
  };
  if (gather.axes == AxisSet() || !std::all_of(inputs.begin(), inputs.end(), whole_shard)) return {};
  std::vector<Tensor> views;
  for (const Tensor& input : inputs) {
    TensorSpec spec = input.spec();
    spec.shape.insert(spec.shape.begin(), gather.group_size);
    const std::int64_t bytes = spec.bytes();
    views.emplace_back(spec, std::make_shared<DryStorage>(bytes, nullptr, nullptr));
  }
  CollectiveRequest request;
  request.kind = CollectiveKind::all_gather;
  request.axes = gather.axes;
  record(std::move(request), inputs);
  return views;
}

/// `per_member` holds what each member contributes (all_gather, all_reduce) or receives (reduce_scatter).
void DryEngine::record(CollectiveRequest request, std::span<const Tensor> per_member) {
  for (const Tensor& tensor : per_member) {
    request.buffers.push_back({nullptr, nullptr, tensor.spec().bytes() / element_size(request.element)});
  }
  const std::int64_t bytes = logical_bytes(request, mesh_.size(request.axes));
  collectives_.push_back({request.kind, request.axes, bytes});
  counters_.of(request.kind).calls += 1;
  counters_.of(request.kind).bytes += bytes;
}

}  // namespace maxtext
