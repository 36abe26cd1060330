// The tape. A graph is one segment of a device's program (the embedding, one period of layers, the head): functions
// are recorded with their shapes, then `forward` runs them and `backward` applies their vjps in reverse.
//
// Recording before running costs microseconds and tells, before any arithmetic, what backward will read. So forward
// frees each value after its last use unless backward reads it and the policy keeps it, never runs what nobody reads,
// and backward recomputes exactly what it lacks (dead recomputation, such as the last projection of a fully
// rematerialised layer, falls away by itself), freeing each value after its last reading (backward_plan.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "autodiff/function.h"

namespace maxtext {

/// The rematerialisation policy: which named values of a graph are kept for backward; the others are recomputed.
struct RematPolicy {
  /// Keep every value that costs more than elementwise work.
  bool keep_all = true;
  std::unordered_set<std::string> names;

  bool keeps(const std::string& name) const { return keep_all || names.contains(name); }
};

/// `full` keeps only what enters the graph, `minimal` the outputs of projections (query_proj, key_proj, value_proj,
/// out_proj, mlpwi_0, mlpwi_1, mlpwo — MaxText's names), `none` recomputes nothing but elementwise work. Throws
/// ConfigError that lists the names.
RematPolicy remat_policy(std::string_view name);

/// Where a parameter's gradient goes. The first contribution is stored, later ones are added. An undefined
/// destination is allocated by the first contribution.
struct GradientSlot {
  Tensor destination;
  bool accumulate = false;
};

class Graph;
struct BackwardPlan;

/// A handle to one output of a recorded function, or to a leaf. Valid while its graph lives.
class Variable {
 public:
  Variable() = default;
  Variable(Graph* graph, int node, int output) : graph_(graph), node_(node), output_(output) {}

  bool defined() const { return graph_ != nullptr; }
  Graph& graph() const { return *graph_; }
  const TensorSpec& spec() const;
  const Shape& shape() const { return spec().shape; }
  int node() const { return node_; }
  int output() const { return output_; }

 private:
  Graph* graph_ = nullptr;
  int node_ = -1;
  int output_ = 0;
};

/// What a forward pass runs, in order, and what it frees after each function. Found once, it can be run many times.
struct ForwardPlan {
  struct Action {
    int node = 0;
    std::vector<Variable> releases;
  };
  std::vector<Action> actions;
  std::vector<Variable> results;
  /// Results that nothing keeps: freed once they are handed out.
  std::vector<Variable> last_releases;
};

class Graph {
 public:
  explicit Graph(Engine& engine) : engine_(engine) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Engine& engine() { return engine_; }

  /// Leaves. A constant has no gradient (ids, tables); an input's gradient is returned by `backward`; a parameter's
  /// goes to its slot, which must outlive the graph.
  Variable constant(Tensor tensor);
  Variable input(Tensor tensor);
  Variable parameter(Tensor tensor, GradientSlot* slot);

  /// Replaces a leaf's tensor (of equal spec), or releases it when undefined: gathered parameters are dropped after
  /// forward and gathered again for backward.
  void bind(Variable leaf, Tensor tensor);

  /// The values that hold a tensor for backward, inputs included; not constants and parameters, which are bound.
  std::vector<Variable> held();
  const Tensor& held_tensor(Variable value) { return tensor_of(value); }
  /// Replaces the tensor of such a value: one that was stored elsewhere between forward and backward.
  void hold(Variable value, Tensor tensor);

  /// Records a function. `name` is what a policy and dumps call its first output.
  std::vector<Variable> apply(std::shared_ptr<const Function> function, std::vector<Variable> inputs,
                              std::string name = {});

  /// Runs what `results` depend on and returns their tensors. With a policy, keeps what backward will read; without,
  /// nothing (evaluation).
  std::vector<Tensor> forward(const std::vector<Variable>& results, const RematPolicy* policy) {
    return forward(plan_forward(results, policy));
  }

  /// The same in two steps: the plan of a graph that is run again and again, its leaves bound anew each time, is found
  /// once.
  ForwardPlan plan_forward(const std::vector<Variable>& results, const RematPolicy* policy);
  std::vector<Tensor> forward(const ForwardPlan& plan);

  /// Applies the vjps from the cotangents of results; returns the cotangents of `inputs` (input leaves). Call once,
  /// after `forward` with a policy. Values are released on the way.
  std::vector<Tensor> backward(const std::vector<Variable>& results, std::vector<Tensor> cotangents,
                               const std::vector<Variable>& inputs);

  /// Functions run so far, recomputations included, by function name: what "remat" costs is counted, not trusted.
  int runs_of(std::string_view function_name) const;

 private:
  friend class BackwardPlanner;
  friend class Pullback;
  friend class Variable;

  struct Node {
    std::shared_ptr<const Function> function;  // null for leaves
    std::vector<Variable> inputs;
    std::vector<TensorSpec> specs;
    std::vector<Tensor> tensors;     // per output; undefined when not computed or released
    std::vector<Tensor> cotangents;  // per output; none without requires_gradient
    std::vector<bool> cotangent_owned;
    std::string name;
    GradientSlot* slot = nullptr;
    bool requires_gradient = false;
    int runs = 0;
  };
  struct Liveness;

  Variable leaf(Tensor tensor, bool requires_gradient, GradientSlot* slot);
  Liveness analyse(const std::vector<Variable>& results, const RematPolicy* policy) const;
  Node& node_of(const Variable& value) { return nodes_[static_cast<std::size_t>(value.node())]; }
  /// Throws Error where the value is not there.
  const Tensor& tensor_of(const Variable& value);
  /// Runs a function; what it is the last to read is freed as soon as the function lets go of it.
  void run(int node, const std::vector<Variable>& releases);
  void pull(int node, const std::vector<Variable>& reads, const std::vector<Variable>& releases);
  void add_cotangent(Variable value, Tensor cotangent, bool owned);

  Engine& engine_;
  std::vector<Node> nodes_;
};

/// What a vjp sees of its function.
class Pullback {
 public:
  Pullback(Graph& graph, int node, std::vector<Variable> reads, const std::vector<Variable>& releases)
      : graph_(graph), node_(node), unread_(std::move(reads)), releases_(releases) {}

  Engine& engine() { return graph_.engine_; }

  /// An input or output that `needs` named, recomputed if it was not kept. To be read once: where nothing reads it
  /// later, the graph lets go of it, and its memory is free when the caller does.
  Tensor input(int index);
  Tensor output(int index);
  const TensorSpec& input_spec(int index) const;
  int input_count() const;
  bool wants(int input) const;

  /// The cotangent of an output; zeros where nothing flowed into it.
  Tensor cotangent(int output);
  bool has_cotangent(int output) const;

  /// Adds to the cotangent of an input. `owned` says that nobody else holds this tensor, so that it may be added to
  /// in place.
  void add(int input, Tensor cotangent, bool owned = true);

  /// An activation's cotangent that exists already and may be added to in place by an accumulating op; undefined when
  /// there is none. To be given back with `add`… of the op's result.
  Tensor take_destination(int input);

  /// Where a parameter's gradient goes and whether to add; the op's result is given to `finish_gradient`.
  struct Destination {
    Tensor tensor;
    bool accumulate;
  };
  Destination gradient_destination(int input);
  void finish_gradient(int input, Tensor result);

 private:
  Graph::Node& node() const { return graph_.nodes_[static_cast<std::size_t>(node_)]; }

  Tensor take(const Variable& value);

  Graph& graph_;
  int node_;
  std::vector<Variable> unread_;
  const std::vector<Variable>& releases_;
};

}  // namespace maxtext
