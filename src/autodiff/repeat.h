// Repeated layers: n iterations of one body, pure in (x, the iteration's parameters, constants).
#pragma once

#include <functional>
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
  Repeat(Engine& engine, int iterations, RepeatBody body)
      : engine_(engine), iterations_(iterations), body_(std::move(body)) {}

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

  Engine& engine_;
  int iterations_;
  RepeatBody body_;
  std::vector<Iteration> recorded_;
};

}  // namespace maxtext
