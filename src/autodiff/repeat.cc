#include "autodiff/repeat.h"

namespace maxtext {

Tensor Repeat::forward(Tensor x, ParameterSource& source, const RematPolicy* policy) {
  if (engine_.traces_loops()) return forward_in_loops(std::move(x), source, policy);
  recorded_.clear();
  if (iterations_ > 0) source.prefetch(0);
  for (int i = 0; i < iterations_; ++i) {
    const std::vector<Tensor> tensors = source.acquire(i);
    if (i + 1 < iterations_) {
      source.prefetch(i + 1);
    } else {
      source.prefetch_following();
    }
    const std::vector<GradientSlot*> slots =
        policy != nullptr ? source.gradient_slots(i) : std::vector<GradientSlot*>(tensors.size(), nullptr);
    Iteration iteration{.graph = std::make_unique<Graph>(engine_), .x = {}, .parameters = {}, .result = {}};
    Graph& graph = *iteration.graph;
    iteration.x = policy != nullptr ? graph.input(std::move(x)) : graph.constant(std::move(x));
    x = Tensor();
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      iteration.parameters.push_back(graph.parameter(tensors[k], slots[k]));
    }
    iteration.result = body_(graph, iteration.x, iteration.parameters, i);
    x = graph.forward({iteration.result}, policy)[0];
    for (const Variable& parameter : iteration.parameters) graph.bind(parameter, Tensor());
    if (policy == nullptr || i + 1 < iterations_) source.release(i);
    if (policy != nullptr) recorded_.push_back(std::move(iteration));
  }
  return x;
}

Tensor Repeat::backward(Tensor cotangent, ParameterSource& source) {
  if (engine_.traces_loops()) return backward_in_loops(std::move(cotangent), source);
  if (iterations_ > 0) source.prefetch(iterations_ - 1);
  for (int i = iterations_ - 1; i >= 0; --i) {
    Iteration iteration = std::move(recorded_.back());
    recorded_.pop_back();
    std::vector<Tensor> tensors = source.acquire(i);
    if (i > 0) source.prefetch(i - 1);
    source.begin_gradients(i);
    Graph& graph = *iteration.graph;
    for (std::size_t k = 0; k < tensors.size(); ++k) graph.bind(iteration.parameters[k], std::move(tensors[k]));
    std::vector<Tensor> seeds;
    seeds.push_back(std::move(cotangent));
    cotangent = graph.backward({iteration.result}, std::move(seeds), {iteration.x})[0];
    iteration.graph.reset();
    source.release(i);
    source.gradients_ready(i);
  }
  return cotangent;
}

}  // namespace maxtext
