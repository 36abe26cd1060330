// Collectives over named mesh axes, coalesced: all inputs travel in one message. Results are returned before they are
// complete; the engine waits at their first use. Adjoints: all_gather <-> reduce_scatter. In a group of one all results
// are views of the inputs and nothing travels.
#pragma once

#include <string_view>
#include <vector>

#include "mesh/communicator.h"
#include "ops/op_types.h"

namespace maxtext {

/// (x0 [...], x1 [...], …) -> each [P, ...]: the P group members' tensors, in group-rank order.
struct AllGather {
  static constexpr std::string_view name = "all_gather";
  AxisSet axes;
  int group_size = 1;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (x0 [P, ...], …) -> each [...]: member r gets Σ over members of their x[r], summed in ascending group rank.
struct ReduceScatter {
  static constexpr std::string_view name = "reduce_scatter";
  AxisSet axes;
  int group_size = 1;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (x0, …) -> the sum (or maximum) over members, the same on all of them.
struct AllReduce {
  static constexpr std::string_view name = "all_reduce";
  AxisSet axes;
  int group_size = 1;
  ReduceOp reduce = ReduceOp::sum;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

}  // namespace maxtext
