#include "engines/cpu/cpu_engine.h"

#include <omp.h>

#include <cstring>

#include "engines/cpu/run.h"

namespace maxtext {
namespace {

void check_bytes(std::string_view what, const TensorSpec& spec, std::size_t bytes) {
  if (static_cast<std::int64_t>(bytes) != spec.bytes()) {
    fail("{}: {} takes {} bytes, but {} were given", what, to_string(spec), spec.bytes(), bytes);
  }
}

}  // namespace

CpuEngine::CpuEngine(CpuEngineOptions options, Communicator& communicator)
    : options_(options), context_{pool_, communicator, workspace_, options.fast_few_rows} {
  if (options.threads < 1) fail("cpu engine: needs at least one thread, not {}", options.threads);
}

Tensor CpuEngine::allocate(const TensorSpec& spec) {
  return {spec, std::make_shared<CpuStorage>(pool_.allocate(spec.bytes()), spec.bytes(), memory().track(spec.bytes()))};
}

Tensor CpuEngine::allocate_shard(const TensorSpec& spec, AxisSet axes) {
  const int group_size = mesh().size(axes);
  const TensorSpec part = shard_spec(spec, group_size);
  if (group_size == 1 || !context_.communicator.shares_memory()) return allocate(part);
  const GroupMemory group = context_.communicator.allocate_shared(axes, part.bytes());
  const std::shared_ptr<std::byte> base(group.base, group.base.get());
  auto storage = std::make_shared<CpuStorage>(std::shared_ptr<std::byte>(base, group.mine), part.bytes(),
                                              memory().track(part.bytes()));
  storage->set_shared_group({axes, base});
  return {part, std::move(storage)};
}

Tensor CpuEngine::input(const TensorSpec& spec, std::span<const std::byte> bytes) {
  check_bytes("input", spec, bytes.size());
  Tensor tensor = allocate(spec);
  if (!bytes.empty()) std::memcpy(data<std::byte>(tensor), bytes.data(), bytes.size());
  return tensor;
}

Tensor CpuEngine::borrow(const TensorSpec& spec, std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  check_bytes("borrow", spec, bytes.size());
  const auto element = static_cast<std::uintptr_t>(dtype_size(spec.dtype));
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % element != 0) return Engine::borrow(spec, bytes, nullptr);
  // Storage knows no constness; what is marked read-only is not written to.
  std::shared_ptr<std::byte> block(std::const_pointer_cast<void>(std::move(owner)),
                                   const_cast<std::byte*>(bytes.data()));
  auto storage = std::make_shared<CpuStorage>(std::move(block), spec.bytes(), memory().track_borrowed(spec.bytes()));
  storage->set_read_only();
  return {spec, std::move(storage)};
}

void CpuEngine::read(const Tensor& tensor, std::span<std::byte> destination) {
  if (!tensor.defined()) fail("read: the tensor is undefined");
  check_bytes("read", tensor.spec(), destination.size());
  tensor.storage()->wait();
  if (!destination.empty()) std::memcpy(destination.data(), data<std::byte>(tensor), destination.size());
}

void CpuEngine::write(const Tensor& tensor, std::span<const std::byte> source) {
  if (!tensor.defined()) fail("write: the tensor is undefined");
  if (tensor.storage()->read_only()) fail("write: the memory of {} is borrowed", to_string(tensor.spec()));
  check_bytes("write", tensor.spec(), source.size());
  tensor.storage()->wait();
  if (!source.empty()) std::memcpy(data<std::byte>(tensor), source.data(), source.size());
}

std::span<const std::byte> CpuEngine::host_bytes(const Tensor& tensor) {
  tensor.storage()->wait();
  return {data<std::byte>(tensor), static_cast<std::size_t>(tensor.spec().bytes())};
}

void CpuEngine::execute(const Op& op, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
  for (const Tensor& input : inputs) input.storage()->wait();
  // The team's size belongs to the calling thread, and engines may share one; setting it is a store.
  omp_set_num_threads(options_.threads);
  std::visit([&](const auto& concrete) { run(context_, concrete, inputs, outputs); }, op);
}

std::vector<Tensor> CpuEngine::gather_views(const AllGather& gather, std::span<const Tensor> inputs) {
  return gather_shared_shards(context_, gather, inputs);
}

}  // namespace maxtext
