#include <memory>
#include <utility>

#include "engines/cpu/run.h"

namespace maxtext {
namespace {

ElementType element_of(std::string_view op, DType dtype) {
  if (dtype == DType::float32) return ElementType::float32;
  if (dtype == DType::float64) return ElementType::float64;
  fail("{}: the cpu engine reduces float32 and float64, not {}", op, dtype_name(dtype));
}

/// One message for all inputs. `counts[i]` elements of input i per member. Blocks, not storages, are kept alive: a
/// storage owns the handle of the collective that fills it.
void start(CpuContext& context, CollectiveRequest request, Inputs inputs, Outputs outputs) {
  const std::int64_t size = element_size(request.element);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& per_member = request.kind == CollectiveKind::reduce_scatter ? outputs[i] : inputs[i];
    request.buffers.push_back(
        {data<std::byte>(inputs[i]), data<std::byte>(outputs[i]), per_member.spec().bytes() / size});
    request.keepalive.push_back(storage_of(inputs[i]).block());
    request.keepalive.push_back(storage_of(outputs[i]).block());
  }
  request.label = to_string(inputs[0].spec());
  const std::shared_ptr<PendingCollective> pending = context.communicator.start(std::move(request));
  for (const Tensor& output : outputs) storage_of(output).set_pending(pending);
}

/// Whether `tensor` is all of a part of memory that the group over `axes` shares.
bool is_shared_shard(const Tensor& tensor, AxisSet axes) {
  const CpuStorage& storage = storage_of(tensor);
  return storage.shared_group().base != nullptr && storage.shared_group().axes == axes &&
         storage.bytes() == tensor.spec().bytes();
}

}  // namespace

std::vector<Tensor> gather_shared_shards(CpuContext& context, const AllGather& op, Inputs inputs) {
  for (const Tensor& input : inputs) {
    if (!is_shared_shard(input, op.axes)) return {};
  }
  CollectiveRequest request;
  request.kind = CollectiveKind::all_gather;
  request.axes = op.axes;
  request.label = to_string(inputs[0].spec());
  std::vector<Tensor> views;
  for (const Tensor& input : inputs) {
    input.storage()->wait();
    const std::shared_ptr<std::byte>& base = storage_of(input).shared_group().base;
    request.buffers.push_back({data<std::byte>(input), base.get(), input.spec().bytes()});
    request.keepalive.push_back(base);
    TensorSpec spec = input.spec();
    spec.shape.insert(spec.shape.begin(), op.group_size);
    const std::int64_t bytes = spec.bytes();
    views.emplace_back(spec, std::make_shared<CpuStorage>(base, bytes, nullptr));
  }
  const std::shared_ptr<PendingCollective> pending = context.communicator.start(std::move(request));
  for (const Tensor& view : views) storage_of(view).set_pending(pending);
  return views;
}

void run(CpuContext& context, const AllGather& op, Inputs inputs, Outputs outputs) {
  CollectiveRequest request;
  request.kind = CollectiveKind::all_gather;
  request.axes = op.axes;
  start(context, std::move(request), inputs, outputs);
}

void run(CpuContext& context, const ReduceScatter& op, Inputs inputs, Outputs outputs) {
  CollectiveRequest request;
  request.kind = CollectiveKind::reduce_scatter;
  request.axes = op.axes;
  request.element = element_of(op.name, inputs[0].dtype());
  start(context, std::move(request), inputs, outputs);
}

void run(CpuContext& context, const AllReduce& op, Inputs inputs, Outputs outputs) {
  CollectiveRequest request;
  request.kind = CollectiveKind::all_reduce;
  request.axes = op.axes;
  request.element = element_of(op.name, inputs[0].dtype());
  request.reduce = op.reduce;
  start(context, std::move(request), inputs, outputs);
}

}  // namespace maxtext
