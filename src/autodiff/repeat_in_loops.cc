// Repeated layers on an engine that traces loops: a loop forward, a loop backward. Everything that crosses from one to
// the other, or from iteration to iteration, does so through memory made outside of the loops.
#include <algorithm>

#include "autodiff/repeat.h"
#include "base/error.h"

namespace maxtext {
namespace {

void assign(Engine& engine, const Tensor& value, const Tensor& destination) {
  engine.apply_one(Assign{}, {value, destination});
}

/// What has one iteration only is written down as it is.
void loop(Engine& engine, const LoopRange& range, const std::function<void(std::int64_t)>& body) {
  if (range.begin + range.step >= range.end) return body(range.begin);
  engine.loop(range, body);
}

bool same_memory(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() && a.byte_offset() == b.byte_offset() && a.spec().bytes() == b.spec().bytes();
}

}  // namespace

std::vector<LoopRange> Repeat::loops() const {
  const std::int64_t whole = iterations_ / period_ * period_;
  std::vector<LoopRange> ranges;
  if (whole > 0) ranges.push_back({.begin = 0, .end = whole, .step = period_});
  if (whole < iterations_) ranges.push_back({.begin = whole, .end = iterations_, .step = iterations_ - whole});
  return ranges;
}

Tensor Repeat::forward_in_loops(Tensor x, ParameterSource& source, const RematPolicy* policy) {
  recorded_in_loops_.clear();
  stacks_.clear();
  Tensor carried = engine_.allocate(x.spec());
  assign(engine_, x, carried);
  x = Tensor();
  for (const LoopRange& range : loops()) {
    loop(engine_, range, [&](std::int64_t first) {
      for (std::int64_t k = 0; k < range.step; ++k) {
        trace_forward(static_cast<int>(first + k), carried, source, policy);
      }
    });
  }
  source.prefetch_following();
  return carried;
}

void Repeat::trace_forward(int index, const Tensor& x, ParameterSource& source, const RematPolicy* policy) {
  const std::vector<Tensor> tensors = source.acquire(index);
  const std::vector<GradientSlot*> slots =
      policy != nullptr ? source.gradient_slots(index) : std::vector<GradientSlot*>(tensors.size(), nullptr);
  LoopIteration recorded;
  Iteration& iteration = recorded.iteration;
  iteration.graph = std::make_unique<Graph>(engine_);
  Graph& graph = *iteration.graph;
  iteration.x = policy != nullptr ? graph.input(x) : graph.constant(x);
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    iteration.parameters.push_back(graph.parameter(tensors[k], slots[k]));
  }
  iteration.result = body_(graph, iteration.x, iteration.parameters, index);
  const Tensor result = graph.forward({iteration.result}, policy)[0];
  for (const Variable& parameter : iteration.parameters) graph.bind(parameter, Tensor());
  source.release(index);
  if (policy != nullptr) {
    store(index, recorded);
    recorded_in_loops_[index] = std::move(recorded);
  }
  assign(engine_, result, x);
}

void Repeat::store(int index, LoopIteration& recorded) {
  Graph& graph = *recorded.iteration.graph;
  // Values of one memory, such as a projection and its heads, are stored once.
  std::vector<Tensor> stored;
  for (const Variable& value : graph.held()) {
    const Tensor tensor = graph.held_tensor(value);
    const auto known =
        std::find_if(stored.begin(), stored.end(), [&](const Tensor& other) { return same_memory(other, tensor); });
    const auto place = static_cast<std::size_t>(known - stored.begin());
    if (known == stored.end()) {
      stored.push_back(tensor);
      if (place == stacks_.size()) stacks_.push_back(engine_.allocate_stack(iterations_, tensor.spec()));
      if (stacks_[place].front().spec() != tensor.spec()) fail("repeated layers keep values of different shapes");
      assign(engine_, tensor, stacks_[place].at(static_cast<std::size_t>(index)));
    }
    recorded.stored.push_back({.value = value, .stack = place});
    graph.hold(value, Tensor());
  }
}

Tensor Repeat::backward_in_loops(Tensor cotangent, ParameterSource& source) {
  Tensor carried = engine_.allocate(cotangent.spec());
  assign(engine_, cotangent, carried);
  cotangent = Tensor();
  std::vector<LoopRange> ranges = loops();
  std::reverse(ranges.begin(), ranges.end());
  for (LoopRange& range : ranges) {
    range.reverse = true;
    loop(engine_, range, [&](std::int64_t first) {
      for (std::int64_t k = range.step - 1; k >= 0; --k) trace_backward(static_cast<int>(first + k), carried, source);
    });
  }
  recorded_in_loops_.clear();
  stacks_.clear();
  return carried;
}

void Repeat::trace_backward(int index, const Tensor& cotangent, ParameterSource& source) {
  const LoopIteration recorded = std::move(recorded_in_loops_.at(index));
  Graph& graph = *recorded.iteration.graph;
  std::vector<Tensor> tensors = source.acquire(index);
  source.begin_gradients(index);
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    graph.bind(recorded.iteration.parameters[k], std::move(tensors[k]));
  }
  std::map<std::size_t, Tensor> loaded;
  for (const Stored& stored : recorded.stored) {
    const TensorSpec& spec = stored.value.spec();
    Tensor& tensor = loaded[stored.stack];
    if (!tensor.defined()) {
      // Memory of its own: vjps may write their results over what they read last.
      tensor = engine_.allocate(spec);
      assign(engine_, stacks_[stored.stack].at(static_cast<std::size_t>(index)), tensor);
    }
    graph.hold(stored.value, tensor.view(0, spec.shape));
  }
  loaded.clear();
  const Tensor dx = graph.backward({recorded.iteration.result}, {cotangent}, {recorded.iteration.x})[0];
  source.release(index);
  source.gradients_ready(index);
  assign(engine_, dx, cotangent);
}

}  // namespace maxtext
