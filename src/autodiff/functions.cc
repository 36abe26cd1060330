#include "autodiff/functions.h"

namespace maxtext {
namespace {

Variable apply_one(Op op, std::vector<Variable> inputs, std::string name = {}) {
  Graph& graph = inputs.front().graph();
  return graph.apply(primitive(std::move(op)), std::move(inputs), std::move(name))[0];
}

}  // namespace

Variable embedding(Variable table, Variable ids, Variable first_row) {
  if (!first_row.defined()) return apply_one(Embedding{}, {table, ids});
  return apply_one(Embedding{}, {table, ids, first_row});
}

Variable linear(Variable x, Variable weight, std::string name) {
  return apply_one(Linear{}, {x, weight}, std::move(name));
}

Variable linear(Variable x, Variable weight, Variable bias, std::string name) {
  return apply_one(Linear{}, {x, weight, bias}, std::move(name));
}

Variable rms_norm(Variable x, Variable weight, double epsilon, double weight_offset) {
  return apply_one(RmsNorm{.epsilon = epsilon, .weight_offset = weight_offset}, {x, weight});
}

Variable rope(Variable x, Variable cos, Variable sin) { return apply_one(Rope{}, {x, cos, sin}); }

Variable gated_activation(Variable gate, Variable up, Activation activation) {
  return apply_one(GatedActivation{.activation = activation}, {gate, up});
}

Variable add(Variable a, Variable b) { return apply_one(Add{}, {a, b}); }

Variable scale(Variable x, double factor) { return apply_one(Scale{.factor = factor}, {x}); }

Variable cast(Variable x, DType dtype) { return apply_one(Cast{.dtype = dtype}, {x}); }

Variable reshape(Variable x, Shape shape) { return apply_one(Reshape{.shape = shape}, {x}); }

}  // namespace maxtext
