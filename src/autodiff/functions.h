// Ops on graph values: what the model's code is written in. Shapes and formulas are those of the ops of the same name
// (ops/*.h); `name` is what a rematerialisation policy calls the result.
#pragma once

#include <string>

#include "autodiff/graph.h"

namespace maxtext {

Value embedding(Value table, Value ids);
Value linear(Value x, Value weight, std::string name = {});
Value linear(Value x, Value weight, Value bias, std::string name = {});
Value rms_norm(Value x, Value weight, double epsilon, double weight_offset = 0);
Value rope(Value x, Value cos, Value sin);
Value gated_activation(Value gate, Value up, Activation activation);
Value add(Value a, Value b);
Value scale(Value x, double factor);
Value cast(Value x, DType dtype);
Value reshape(Value x, Shape shape);

}  // namespace maxtext
