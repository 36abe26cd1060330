#include "autodiff/functions.h"

namespace maxtext {
namespace {

Value apply_one(Op op, std::vector<Value> inputs, std::string name = {}) {
  Graph& graph = inputs.front().graph();
  return graph.apply(primitive(std::move(op)), std::move(inputs), std::move(name))[0];
}

}  // namespace

Value embedding(Value table, Value ids) { return apply_one(Embedding{}, {table, ids}); }

Value linear(Value x, Value weight, std::string name) { return apply_one(Linear{}, {x, weight}, std::move(name)); }

Value linear(Value x, Value weight, Value bias, std::string name) {
  return apply_one(Linear{}, {x, weight, bias}, std::move(name));
}

Value rms_norm(Value x, Value weight, double epsilon, double weight_offset) {
  return apply_one(RmsNorm{.epsilon = epsilon, .weight_offset = weight_offset}, {x, weight});
}

Value rope(Value x, Value cos, Value sin) { return apply_one(Rope{}, {x, cos, sin}); }

Value gated_activation(Value gate, Value up, Activation activation) {
  return apply_one(GatedActivation{.activation = activation}, {gate, up});
}

Value add(Value a, Value b) { return apply_one(Add{}, {a, b}); }

Value scale(Value x, double factor) { return apply_one(Scale{.factor = factor}, {x}); }

Value cast(Value x, DType dtype) { return apply_one(Cast{.dtype = dtype}, {x}); }

Value reshape(Value x, Shape shape) { return apply_one(Reshape{.shape = std::move(shape)}, {x}); }

}  // namespace maxtext
