// What the ops of the xla engine are traced with.
#pragma once

#include <vector>

#include "engines/xla/xla_trace.h"
#include "mesh/mesh.h"

namespace maxtext {

struct XlaContext {
  StableHloWriter& writer;
  const Mesh& mesh;
  XlaTrace& trace;

  /// The value of a tensor at this point of the trace. Memory that was never written reads as zeros.
  XlaValue load(const Tensor& tensor) const;
  /// Makes `value`, of the tensor's spec, the tensor's contents from here on: for every view of its memory.
  void store(const Tensor& tensor, const XlaValue& value) const;

  /// The groups of a collective over `axes`, of all replicas; replica i is device i of the mesh.
  std::vector<std::vector<int>> groups(AxisSet axes) const;
};

}  // namespace maxtext
