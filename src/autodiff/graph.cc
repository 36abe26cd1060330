#include "autodiff/graph.h"

#include <algorithm>
#include <utility>

#include "autodiff/backward_plan.h"
#include "base/error.h"

namespace maxtext {

RematPolicy remat_policy(std::string_view name) {
  if (name == "none") return {.keep_all = true, .names = {}};
  if (name == "full") return {.keep_all = false, .names = {}};
  if (name == "minimal") {
    return {.keep_all = false,
            .names = {"query_proj", "key_proj", "value_proj", "out_proj", "mlpwi_0", "mlpwi_1", "mlpwo"}};
  }
  fail_config("remat_policy={} is unknown; allowed are full, minimal, none", name);
}

const TensorSpec& Variable::spec() const {
  return graph_->nodes_[static_cast<std::size_t>(node_)].specs[static_cast<std::size_t>(output_)];
}

Variable Graph::leaf(Tensor tensor, bool requires_gradient, GradientSlot* slot) {
  Node node;
  node.specs = {tensor.spec()};
  node.tensors.push_back(std::move(tensor));
  if (requires_gradient) {
    node.cotangents.resize(1);
    node.cotangent_owned.resize(1);
  }
  node.slot = slot;
  node.requires_gradient = requires_gradient;
  nodes_.push_back(std::move(node));
  return {this, static_cast<int>(nodes_.size()) - 1, 0};
}

Variable Graph::constant(Tensor tensor) { return leaf(std::move(tensor), false, nullptr); }
Variable Graph::input(Tensor tensor) { return leaf(std::move(tensor), true, nullptr); }
Variable Graph::parameter(Tensor tensor, GradientSlot* slot) { return leaf(std::move(tensor), slot != nullptr, slot); }

void Graph::bind(Variable leaf, Tensor tensor) {
  Node& node = nodes_[static_cast<std::size_t>(leaf.node())];
  if (node.function != nullptr) fail("only leaves of a graph can be bound");
  if (tensor.defined() && tensor.spec() != node.specs[0]) {
    fail("a leaf of {} cannot be bound to {}", to_string(node.specs[0]), to_string(tensor.spec()));
  }
  node.tensors[0] = std::move(tensor);
}

std::vector<Variable> Graph::held() {
  std::vector<Variable> values;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.function == nullptr && (!node.requires_gradient || node.slot != nullptr)) continue;
    for (std::size_t k = 0; k < node.tensors.size(); ++k) {
      if (node.tensors[k].defined()) {
        values.emplace_back(this, static_cast<int>(i), static_cast<int>(k));
      }
    }
  }
  return values;
}

void Graph::hold(Variable value, Tensor tensor) {
  if (tensor.defined() && tensor.spec() != value.spec()) {
    fail("a value of {} cannot be {}", to_string(value.spec()), to_string(tensor.spec()));
  }
  node_of(value).tensors[static_cast<std::size_t>(value.output())] = std::move(tensor);
}

std::vector<Variable> Graph::apply(std::shared_ptr<const Function> function, std::vector<Variable> inputs,
                                   std::string name) {
  std::vector<TensorSpec> specs;
  bool requires_gradient = false;
  for (const Variable& input : inputs) {
    if (!input.defined() || &input.graph() != this)
      fail("{}: an input does not belong to this graph", function->name());
    specs.push_back(input.spec());
    requires_gradient = requires_gradient || nodes_[static_cast<std::size_t>(input.node())].requires_gradient;
  }
  Node node;
  node.specs = function->infer(specs);
  node.tensors.resize(node.specs.size());
  if (requires_gradient) {
    node.cotangents.resize(node.specs.size());
    node.cotangent_owned.resize(node.specs.size());
  }
  node.function = std::move(function);
  node.inputs = std::move(inputs);
  node.name = std::move(name);
  node.requires_gradient = requires_gradient;
  nodes_.push_back(std::move(node));
  const int index = static_cast<int>(nodes_.size()) - 1;
  std::vector<Variable> outputs;
  for (std::size_t i = 0; i < nodes_.back().specs.size(); ++i) outputs.emplace_back(this, index, static_cast<int>(i));
  return outputs;
}

/// Per node: whether forward runs it, and per output: whether it is kept, and after which node it can be freed.
struct Graph::Liveness {
  std::vector<bool> runs;
  std::vector<std::vector<bool>> keep;
  std::vector<std::vector<int>> last_use;
};

Graph::Liveness Graph::analyse(const std::vector<Variable>& results, const RematPolicy* policy) const {
  Liveness live;
  const int count = static_cast<int>(nodes_.size());
  live.runs.assign(nodes_.size(), false);
  for (const Node& node : nodes_) {
    live.keep.emplace_back(node.specs.size(), false);
    live.last_use.emplace_back(node.specs.size(), -1);
  }
  const auto at = [](auto& table, const Variable& value) -> decltype(auto) {
    return table[static_cast<std::size_t>(value.node())][static_cast<std::size_t>(value.output())];
  };
  for (const Variable& result : results) {
    live.runs[static_cast<std::size_t>(result.node())] = true;
    at(live.last_use, result) = count;
  }
  for (int i = count - 1; i >= 0; --i) {
    if (!live.runs[static_cast<std::size_t>(i)]) continue;
    for (const Variable& input : nodes_[static_cast<std::size_t>(i)].inputs) {
      live.runs[static_cast<std::size_t>(input.node())] = true;
      at(live.last_use, input) = std::max(at(live.last_use, input), i);
    }
  }
  if (policy == nullptr) return live;

  // What backward reads. A value that the policy does not keep needs its function's inputs instead, and so on down to
  // the leaves; walking nodes in reverse visits a value after everything that may read it.
  std::vector<std::vector<bool>> read;
  for (const Node& node : nodes_) read.emplace_back(node.specs.size(), false);
  for (int i = count - 1; i >= 0; --i) {
    const auto index = static_cast<std::size_t>(i);
    const Node& node = nodes_[index];
    if (!live.runs[index] || node.function == nullptr) continue;
    if (node.requires_gradient) {
      const PullbackNeeds needs = node.function->needs();
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        if ((needs.inputs >> k & 1U) != 0) at(read, node.inputs[k]) = true;
      }
      for (std::size_t k = 0; k < node.specs.size(); ++k) {
        if ((needs.outputs >> k & 1U) != 0) read[index][k] = true;
      }
    }
    if (std::none_of(read[index].begin(), read[index].end(), [](bool is_read) { return is_read; })) continue;
    if (!node.function->cheap() && policy->keeps(node.name)) {
      live.keep[index] = read[index];
    } else {
      for (const Variable& input : node.inputs) at(read, input) = true;
    }
  }
  return live;
}

const Tensor& Graph::tensor_of(const Variable& value) {
  const Node& node = node_of(value);
  const Tensor& tensor = node.tensors[static_cast<std::size_t>(value.output())];
  if (tensor.defined()) return tensor;
  const TensorSpec& spec = node.specs[static_cast<std::size_t>(value.output())];
  if (node.function == nullptr) fail("a leaf {} was read while it is not bound", to_string(spec));
  fail("{}: its output {} was read before it was computed, or by a vjp that did not announce it", node.function->name(),
       to_string(spec));
}

void Graph::run(int index, const std::vector<Variable>& releases) {
  Node& node = nodes_[static_cast<std::size_t>(index)];
  std::vector<Tensor> inputs;
  inputs.reserve(node.inputs.size());
  for (const Variable& input : node.inputs) inputs.push_back(tensor_of(input));
  for (const Variable& value : releases) node_of(value).tensors[static_cast<std::size_t>(value.output())] = Tensor();
  node.tensors = node.function->forward(engine_, std::move(inputs));
  for (const Variable& value : releases) node_of(value).tensors[static_cast<std::size_t>(value.output())] = Tensor();
  ++node.runs;
}

ForwardPlan Graph::plan_forward(const std::vector<Variable>& results, const RematPolicy* policy) {
  const Liveness live = analyse(results, policy);
  ForwardPlan plan;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (!live.runs[i] || node.function == nullptr) continue;
    ForwardPlan::Action action{.node = static_cast<int>(i), .releases = {}};
    const auto release_if_done = [&](const Variable& value) {
      const auto n = static_cast<std::size_t>(value.node());
      const auto k = static_cast<std::size_t>(value.output());
      if (nodes_[n].function == nullptr || live.keep[n][k] || live.last_use[n][k] > static_cast<int>(i)) return;
      action.releases.push_back(value);
    };
    for (const Variable& input : node.inputs) release_if_done(input);
    for (std::size_t k = 0; k < node.specs.size(); ++k) {
      release_if_done({this, static_cast<int>(i), static_cast<int>(k)});
    }
    plan.actions.push_back(std::move(action));
  }
  for (const Variable& result : results) {
    const auto n = static_cast<std::size_t>(result.node());
    if (nodes_[n].function != nullptr && !live.keep[n][static_cast<std::size_t>(result.output())]) {
      plan.last_releases.push_back(result);
    }
  }
  plan.results = results;
  return plan;
}

std::vector<Tensor> Graph::forward(const ForwardPlan& plan) {
  for (const ForwardPlan::Action& action : plan.actions) run(action.node, action.releases);
  std::vector<Tensor> tensors;
  for (const Variable& result : plan.results) tensors.push_back(tensor_of(result));
  for (const Variable& value : plan.last_releases) {
    node_of(value).tensors[static_cast<std::size_t>(value.output())] = Tensor();
  }
  return tensors;
}

std::vector<Tensor> Graph::backward(const std::vector<Variable>& results, std::vector<Tensor> cotangents,
                                    const std::vector<Variable>& inputs) {
  if (results.size() != cotangents.size())
    fail("backward: {} results but {} cotangents", results.size(), cotangents.size());
  const BackwardPlan plan = plan_backward(*this, results);
  for (std::size_t i = 0; i < results.size(); ++i) add_cotangent(results[i], std::move(cotangents[i]), false);
  for (const BackwardPlan::Action& action : plan.actions) {
    if (action.pull) {
      pull(action.node, action.reads, action.releases);
    } else {
      run(action.node, action.releases);
    }
  }
  std::vector<Tensor> gradients;
  for (const Variable& input : inputs) {
    if (!node_of(input).requires_gradient) fail("backward: {} has no gradient", to_string(input.spec()));
    gradients.push_back(std::exchange(node_of(input).cotangents[0], Tensor()));
  }
  return gradients;
}

void Graph::pull(int index, const std::vector<Variable>& reads, const std::vector<Variable>& releases) {
  Node& node = nodes_[static_cast<std::size_t>(index)];
  const bool reached = std::any_of(node.cotangents.begin(), node.cotangents.end(),
                                   [](const Tensor& cotangent) { return cotangent.defined(); });
  if (reached) {
    Pullback context(*this, index, reads, releases);
    node.function->pullback(context);
  }
  for (const Variable& value : releases) node_of(value).tensors[static_cast<std::size_t>(value.output())] = Tensor();
  std::fill(node.cotangents.begin(), node.cotangents.end(), Tensor());
  std::fill(node.tensors.begin(), node.tensors.end(), Tensor());
}

void Graph::add_cotangent(Variable value, Tensor cotangent, bool owned) {
  Node& node = nodes_[static_cast<std::size_t>(value.node())];
  if (!node.requires_gradient) return;
  const auto k = static_cast<std::size_t>(value.output());
  Tensor& existing = node.cotangents[k];
  if (!existing.defined()) {
    existing = std::move(cotangent);
    node.cotangent_owned[k] = owned;
    return;
  }
  if (node.cotangent_owned[k]) {
    existing = engine_.apply_one(Add{.in_place = true}, {existing, cotangent});
  } else if (owned) {
    existing = engine_.apply_one(Add{.in_place = true}, {cotangent, existing});
  } else {
    existing = engine_.apply_one(Add{}, {existing, cotangent});
  }
  node.cotangent_owned[k] = true;
}

int Graph::runs_of(std::string_view function_name) const {
  int runs = 0;
  for (const Node& node : nodes_) {
    if (node.function != nullptr && node.function->name() == function_name) runs += node.runs;
  }
  return runs;
}

Tensor Pullback::input(int index) { return take(node().inputs.at(static_cast<std::size_t>(index))); }

Tensor Pullback::output(int index) { return take({&graph_, node_, index}); }

Tensor Pullback::take(const Variable& value) {
  const auto same = [&](const Variable& other) {
    return other.node() == value.node() && other.output() == value.output();
  };
  Tensor tensor = graph_.tensor_of(value);
  const auto read = std::find_if(unread_.begin(), unread_.end(), same);
  if (read != unread_.end()) unread_.erase(read);
  if (std::none_of(unread_.begin(), unread_.end(), same) && std::any_of(releases_.begin(), releases_.end(), same)) {
    graph_.node_of(value).tensors[static_cast<std::size_t>(value.output())] = Tensor();
  }
  return tensor;
}

const TensorSpec& Pullback::input_spec(int index) const {
  return node().inputs.at(static_cast<std::size_t>(index)).spec();
}

int Pullback::input_count() const { return static_cast<int>(node().inputs.size()); }

bool Pullback::wants(int input) const {
  const Variable& value = node().inputs.at(static_cast<std::size_t>(input));
  return graph_.nodes_[static_cast<std::size_t>(value.node())].requires_gradient;
}

bool Pullback::has_cotangent(int output) const { return node().cotangents[static_cast<std::size_t>(output)].defined(); }

Tensor Pullback::cotangent(int output) {
  const auto k = static_cast<std::size_t>(output);
  if (node().cotangents[k].defined()) return node().cotangents[k];
  return engine().apply_one(Fill{.spec = node().specs[k], .value = 0}, {});
}

void Pullback::add(int input, Tensor cotangent, bool owned) {
  graph_.add_cotangent(node().inputs.at(static_cast<std::size_t>(input)), std::move(cotangent), owned);
}

Tensor Pullback::take_destination(int input) {
  const Variable& value = node().inputs.at(static_cast<std::size_t>(input));
  Graph::Node& producer = graph_.nodes_[static_cast<std::size_t>(value.node())];
  const auto k = static_cast<std::size_t>(value.output());
  if (!producer.requires_gradient) return {};
  if (!producer.cotangents[k].defined() || !producer.cotangent_owned[k]) return {};
  return std::exchange(producer.cotangents[k], Tensor());
}

Pullback::Destination Pullback::gradient_destination(int input) {
  const Variable& value = node().inputs.at(static_cast<std::size_t>(input));
  GradientSlot* slot = graph_.nodes_[static_cast<std::size_t>(value.node())].slot;
  const TensorSpec spec{value.shape(), accumulation_dtype(value.spec().dtype)};
  if (slot == nullptr) return {engine().allocate(spec), false};
  if (!slot->destination.defined()) return {engine().allocate(spec), false};
  return {slot->destination, slot->accumulate};
}

void Pullback::finish_gradient(int input, Tensor result) {
  const Variable& value = node().inputs.at(static_cast<std::size_t>(input));
  GradientSlot* slot = graph_.nodes_[static_cast<std::size_t>(value.node())].slot;
  if (slot == nullptr) {
    add(input, std::move(result));
    return;
  }
  slot->destination = std::move(result);
  slot->accumulate = true;
}

}  // namespace maxtext
