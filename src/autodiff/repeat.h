// Repeated layers: n iterations of one body, pure in (x, the iteration's parameters, constants).
//
// An engine that traces loops gets one loop forward and one backward (repeat_in_loops.cc): the body is recorded for the
// iterations of one period only, x is carried, and what backward will read is stored in stacks, a row per iteration.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "autodiff/graph.h"

namespace maxtext {

/// Supplies the parameters of each iteration and takes their gradients. Where parameters are sharded, `prefetch`
/// starts the gather, and `repeat` calls it one iteration ahead, so that at most two iterations' parameters are
/// gathered at a time. The last iteration's stay acquired from forward to backward, which begins with them.
class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  virtual void prefetch(int iteration) = 0;
  /// Called in forward when the last iteration begins: starts to gather what the program needs after the iterations.
  virtual void prefetch_following() {}
  virtual std::vector<Tensor> acquire(int iteration) = 0;
  virtual void release(int iteration) = 0;
  /// One slot per parameter, at addresses that stay valid until `gradients_ready`. Destinations need to be there from
  /// `begin_gradients` on.
  virtual std::vector<GradientSlot*> gradient_slots(int iteration) = 0;
  virtual void begin_gradients(int iteration) = 0;
  /// All gradients of the iteration are in their slots: they may be reduced while earlier iterations compute.
  virtual void gradients_ready(int iteration) = 0;
};

/// Records one iteration: (graph, x, parameters, iteration) -> x. The iteration may select constants of the batch
/// (an attention type's key intervals), nothing else.
using RepeatBody = std::function<Variable(Graph&, Variable, std::span<const Variable>, int)>;

class Repeat {
 public:
  /// Iterations i and i + period select the same constants of the batch.
  Repeat(Engine& engine, int iterations, int period, RepeatBody body)
      : engine_(engine), iterations_(iterations), period_(period), body_(std::move(body)) {}

  /// x through all iterations. With a policy the graphs are kept for `backward`, with what the policy keeps; without
  /// one nothing is kept.
  Tensor forward(Tensor x, ParameterSource& source, const RematPolicy* policy);

  /// The cotangent of forward's argument from that of its result. Frees each iteration on the way.
  Tensor backward(Tensor cotangent, ParameterSource& source);

 private:
  struct Iteration {
    std::unique_ptr<Graph> graph;
    Variable x;
    std::vector<Variable> parameters;
    Variable result;
  };
  /// A value that is in a row of a stack between forward and backward; several values of one memory are in one.
  struct Stored {
    Variable value;
    std::size_t stack = 0;
  };
  struct LoopIteration {
    Iteration iteration;
    std::vector<Stored> stored;
  };

  Tensor forward_in_loops(Tensor x, ParameterSource& source, const RematPolicy* policy);
  Tensor backward_in_loops(Tensor cotangent, ParameterSource& source);
  /// Whole periods, then what remains of one.
  std::vector<LoopRange> loops() const;
  void trace_forward(int index, const Tensor& x, ParameterSource& source, const RematPolicy* policy);
  void trace_backward(int index, const Tensor& cotangent, ParameterSource& source);
  void store(int index, LoopIteration& recorded);

  Engine& engine_;
  int iterations_;
  int period_;
  RepeatBody body_;
  std::vector<Iteration> recorded_;
  std::map<int, LoopIteration> recorded_in_loops_;
  std::vector<std::vector<Tensor>> stacks_;
};

}  // namespace maxtext
