// The collectives of a traced program, counted as communicators and the dry engine count them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "mesh/communicator.h"
#include "ops/op.h"
#include "tensor/tensor.h"

namespace maxtext {

/// All collectives of one kind over the same axes.
struct XlaCollective {
  CollectiveKind kind = CollectiveKind::barrier;
  AxisSet axes;
  std::int64_t calls = 0;
  /// What one device puts on the wire (logical_bytes).
  std::int64_t bytes = 0;
};

/// One call of `op` where it is a collective.
std::optional<XlaCollective> collective_of(const Op& op, std::span<const Tensor> inputs,
                                           std::span<const Tensor> outputs, const Mesh& mesh);

/// Adds `collective`, `times` over, to those of its kind and axes.
void add_collective(std::vector<XlaCollective>& collectives, const XlaCollective& collective, std::int64_t times);

}  // namespace maxtext
