#include "ops/embedding.h"

namespace maxtext {
namespace {

void require_first_row(std::string_view op, InputSpecs inputs, std::size_t at) {
  if (inputs.size() <= at) return;
  require_shape(inputs[at] == TensorSpec{{}, DType::int32}, op, inputs, "first_row must be int32 []");
}

}  // namespace

std::vector<OutputSpec> Embedding::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {2, 3});
  require_floating(inputs[0].dtype, name, inputs);
  require_shape(inputs[0].shape.size() == 2, name, inputs, "table must be [V, E]");
  require_shape(inputs[1].dtype == DType::int32, name, inputs, "ids must be int32");
  require_first_row(name, inputs, 2);
  TensorSpec rows{inputs[1].shape, accumulation_dtype(inputs[0].dtype)};
  rows.shape.push_back(inputs[0].shape[1]);
  return {{.spec = rows}};
}

std::vector<OutputSpec> EmbeddingBackward::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {3, 4});
  require_floating(inputs[0].dtype, name, inputs);
  require_shape(inputs[1].dtype == DType::int32, name, inputs, "ids must be int32");
  require_shape(inputs[2].shape.size() == 2, name, inputs, "destination must be [V, E]");
  Shape rows = inputs[1].shape;
  rows.push_back(inputs[2].shape[1]);
  require_shape(inputs[0].shape == rows, name, inputs, "dy must be [ids..., E]");
  require_shape(inputs[2].dtype == accumulation_dtype(inputs[0].dtype), name, inputs,
                "destination must have the accumulation dtype");
  require_first_row(name, inputs, 3);
  return {{.spec = inputs[2], .aliases_input = 2}};
}

}  // namespace maxtext
