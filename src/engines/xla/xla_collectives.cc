#include "engines/xla/xla_collectives.h"

#include <algorithm>

namespace maxtext {
namespace {

/// `per_member` holds what each member contributes (all_gather, all_reduce) or receives (reduce_scatter).
XlaCollective one_call(CollectiveKind kind, AxisSet axes, std::span<const Tensor> per_member, const Mesh& mesh) {
  CollectiveRequest request;
  request.kind = kind;
  request.axes = axes;
  for (const Tensor& tensor : per_member) request.buffers.push_back({nullptr, nullptr, tensor.spec().bytes()});
  return {.kind = kind, .axes = axes, .calls = 1, .bytes = logical_bytes(request, mesh.size(axes))};
}

}  // namespace

std::optional<XlaCollective> collective_of(const Op& op, std::span<const Tensor> inputs,
                                           std::span<const Tensor> outputs, const Mesh& mesh) {
  if (const auto* gather = std::get_if<AllGather>(&op)) {
    return one_call(CollectiveKind::all_gather, gather->axes, inputs, mesh);
  }
  if (const auto* scatter = std::get_if<ReduceScatter>(&op)) {
    return one_call(CollectiveKind::reduce_scatter, scatter->axes, outputs, mesh);
  }
  if (const auto* reduce = std::get_if<AllReduce>(&op)) {
    return one_call(CollectiveKind::all_reduce, reduce->axes, inputs, mesh);
  }
  return std::nullopt;
}

void add_collective(std::vector<XlaCollective>& collectives, const XlaCollective& collective, std::int64_t times) {
  auto known = std::find_if(collectives.begin(), collectives.end(), [&](const XlaCollective& other) {
    return other.kind == collective.kind && other.axes == collective.axes;
  });
  if (known == collectives.end()) {
    collectives.push_back({.kind = collective.kind, .axes = collective.axes});
    known = collectives.end() - 1;
  }
  known->calls += times * collective.calls;
  known->bytes += times * collective.bytes;
}

}  // namespace maxtext
