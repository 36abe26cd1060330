// Ops on graph values: what the model's code is written in. Shapes and formulas are those of the ops of the same name
// (ops/*.h); `name` is what a rematerialisation policy calls the result.
#pragma once

#include <string>

#include "autodiff/graph.h"

namespace maxtext {

/// `first_row`: of a table that is a part of a larger one; undefined for a whole one.
Variable embedding(Variable table, Variable ids, Variable first_row = {});
Variable linear(Variable x, Variable weight, std::string name = {});
Variable linear(Variable x, Variable weight, Variable bias, std::string name = {});
Variable rms_norm(Variable x, Variable weight, double epsilon, double weight_offset = 0);
Variable rope(Variable x, Variable cos, Variable sin);
Variable gated_activation(Variable gate, Variable up, Activation activation);
Variable add(Variable a, Variable b);
Variable scale(Variable x, double factor);
Variable cast(Variable x, DType dtype);
Variable reshape(Variable x, Shape shape);

}  // namespace maxtext
