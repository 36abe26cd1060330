#include "autodiff/backward_plan.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace maxtext {

class BackwardPlanner {
 public:
  BackwardPlanner(const Graph& graph, const std::vector<Variable>& results) : nodes_(graph.nodes_) {
    available_.resize(nodes_.size());
    final_reader_.resize(nodes_.size());
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      for (const Tensor& tensor : nodes_[n].tensors) available_[n].push_back(tensor.defined());
      final_reader_[n].assign(nodes_[n].specs.size(), kNever);
    }
    kept_ = available_;
    find_pulls(results);
  }

  BackwardPlan plan() {
    for (int i = static_cast<int>(nodes_.size()) - 1; i >= 0; --i) {
      if (!pulls_[static_cast<std::size_t>(i)]) continue;
      for (const Variable& value : reads(i)) ensure(value);
      if (!node(i).function->cheap()) {
        drop_cheap(i);
        start_ahead_of(i);
      }
      plan_.actions.push_back({.node = i, .pull = true, .reads = reads(i), .releases = {}});
      auto& outputs = available_[static_cast<std::size_t>(i)];
      std::fill(outputs.begin(), outputs.end(), false);
    }
    find_releases();
    return std::move(plan_);
  }

 private:
  using Node = Graph::Node;
  using Flags = std::vector<std::vector<bool>>;
  static constexpr int kNever = std::numeric_limits<int>::max();

  const Node& node(int index) const { return nodes_[static_cast<std::size_t>(index)]; }
  const Node& node(const Variable& value) const { return node(value.node()); }
  bool is_leaf(const Variable& value) const { return node(value).function == nullptr; }
  template <typename Table>
  static decltype(auto) at(Table& table, const Variable& value) {
    return table[static_cast<std::size_t>(value.node())][static_cast<std::size_t>(value.output())];
  }

  /// Which nodes cotangents reach, and for each value the last vjp that reads it.
  void find_pulls(const std::vector<Variable>& results) {
    std::vector<bool> reached(nodes_.size(), false);
    for (const Variable& result : results) reached[static_cast<std::size_t>(result.node())] = true;
    pulls_.assign(nodes_.size(), false);
    for (int i = static_cast<int>(nodes_.size()) - 1; i >= 0; --i) {
      const auto index = static_cast<std::size_t>(i);
      if (node(i).function == nullptr || !node(i).requires_gradient || !reached[index]) continue;
      pulls_[index] = true;
      for (const Variable& input : node(i).inputs) reached[static_cast<std::size_t>(input.node())] = true;
      for (const Variable& value : reads(i)) at(final_reader_, value) = i;
    }
  }

  std::vector<Variable> reads(int index) const {
    std::vector<Variable> values;
    const PullbackNeeds needs = node(index).function->needs();
    for (std::size_t k = 0; k < node(index).inputs.size(); ++k) {
      if ((needs.inputs >> k & 1U) != 0) values.push_back(node(index).inputs[k]);
    }
    for (std::size_t k = 0; k < node(index).specs.size(); ++k) {
      if ((needs.outputs >> k & 1U) != 0) values.emplace_back(graph_of(index), index, static_cast<int>(k));
    }
    return values;
  }
  /// Any input knows the graph; a function without inputs has no vjp.
  Graph* graph_of(int index) const { return &node(index).inputs.front().graph(); }

  bool asynchronous(const Variable& value) const { return !is_leaf(value) && node(value).function->asynchronous(); }

  /// Plans what is needed to have `value`; what travels is started first.
  void ensure(const Variable& value) {
    if (at(available_, value)) return;
    const Node& producer = node(value);
    if (is_leaf(value)) fail("a leaf {} was read while it is not bound", to_string(producer.specs[0]));
    for (const bool first : {true, false}) {
      for (const Variable& input : producer.inputs) {
        if (asynchronous(input) == first) ensure(input);
      }
    }
    plan_.actions.push_back({.node = value.node(), .pull = false, .reads = producer.inputs, .releases = {}});
    auto& outputs = available_[static_cast<std::size_t>(value.node())];
    std::fill(outputs.begin(), outputs.end(), true);
  }

  void drop_cheap(int pull) {
    const std::vector<Variable> read_now = reads(pull);
    for (int n = 0; n < pull; ++n) {
      if (node(n).function == nullptr || !node(n).function->cheap()) continue;
      for (std::size_t k = 0; k < node(n).specs.size(); ++k) {
        const Variable value(nullptr, n, static_cast<int>(k));
        const bool is_read = std::any_of(read_now.begin(), read_now.end(), [&](const Variable& read) {
          return read.node() == n && read.output() == static_cast<int>(k);
        });
        if (at(available_, value) && !at(kept_, value) && !is_read && recomputable(value, pull)) {
          at(available_, value) = false;
        }
      }
    }
  }

  /// Whether a cheap value can be computed from what will be there until the last vjp after `pull` has read it. What no
  /// vjp reads is not dropped here: it is freed after its last use in a recomputation.
  bool recomputable(const Variable& value, int pull) const {
    const int reader = at(final_reader_, value);
    return reader < pull && inputs_stay(value, reader);
  }
  bool inputs_stay(const Variable& value, int until) const {
    const std::vector<Variable>& inputs = node(value).inputs;
    return std::all_of(inputs.begin(), inputs.end(), [&](const Variable& input) {
      if (is_leaf(input) || (at(available_, input) && at(final_reader_, input) <= until)) return true;
      return node(input).function->cheap() && inputs_stay(input, until);
    });
  }

  /// Starts what the next costly vjp after `pull`, and what is recomputed for it, reads of asynchronous functions.
  void start_ahead_of(int pull) {
    for (int i = pull - 1; i >= 0; --i) {
      if (!pulls_[static_cast<std::size_t>(i)]) continue;
      for (const Variable& value : reads(i)) start(value);
      if (!node(i).function->cheap()) return;
    }
  }
  void start(const Variable& value) {
    if (at(available_, value) || is_leaf(value)) return;
    if (asynchronous(value)) return ensure(value);
    for (const Variable& input : node(value).inputs) start(input);
  }

  void find_releases() {
    Flags pending;
    for (const Node& n : nodes_) pending.emplace_back(n.specs.size(), false);
    for (auto action = plan_.actions.rbegin(); action != plan_.actions.rend(); ++action) {
      if (!action->pull) {
        for (std::size_t k = 0; k < node(action->node).specs.size(); ++k) {
          const Variable output(nullptr, action->node, static_cast<int>(k));
          if (!at(pending, output)) action->releases.push_back(output);
          at(pending, output) = false;
        }
      }
      for (const Variable& value : action->reads) {
        if (is_leaf(value)) continue;
        if (!at(pending, value)) action->releases.push_back(value);
        at(pending, value) = true;
      }
    }
  }

  const std::vector<Node>& nodes_;
  Flags available_;
  Flags kept_;
  std::vector<bool> pulls_;
  /// The node whose vjp is the last to read a value; kNever where none does.
  std::vector<std::vector<int>> final_reader_;
  BackwardPlan plan_;
};

BackwardPlan plan_backward(const Graph& graph, const std::vector<Variable>& results) {
  return BackwardPlanner(graph, results).plan();
}

}  // namespace maxtext
