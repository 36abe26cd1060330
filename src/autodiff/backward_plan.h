// What backward does, in order, decided before it runs: which values it recomputes, when, and when each can be freed.
#pragma once

#include <vector>

#include "autodiff/graph.h"

namespace maxtext {

/// Recomputations and pullbacks in the order in which they run.
struct BackwardPlan {
  struct Action {
    int node = 0;
    /// The node's vjp; else its forward function, run again.
    bool pull = false;
    /// One entry per reading.
    std::vector<Variable> reads;
    /// Values (never leaves) that nothing reads after this action, before they are perhaps computed again.
    std::vector<Variable> releases;
  };
  std::vector<Action> actions;
};

/// Plans backward from `results` for a graph whose tensors are those that forward kept and the bound leaves.
///
/// A value that is not there is recomputed before the first vjp that reads it, with what it depends on, and freed after
/// its last reading. Cheap values are freed earlier, after the vjp that asked for them, where all they depend on will
/// be there until they are read again: a norm's output, as large as the residual stream, costs less to compute again
/// than to hold. Results of asynchronous functions are asked for one costly vjp ahead, so that they travel meanwhile.
/// Throws Error when a leaf that backward reads is not bound.
BackwardPlan plan_backward(const Graph& graph, const std::vector<Variable>& results);

}  // namespace maxtext
