#include "ops/reduction.h"

namespace maxtext {
namespace {

void check_summable(std::string_view name, const TensorSpec& x, InputSpecs inputs) {
  require_shape(x.dtype == DType::float32 || x.dtype == DType::float64, name, inputs, "sums float32 or float64 only");
}

}  // namespace

std::vector<OutputSpec> Sum::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {1});
  check_summable(name, inputs[0], inputs);
  return {{.spec = {{}, DType::float64}}};
}

std::vector<OutputSpec> SumOfSquares::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {2});
  check_summable(name, inputs[0], inputs);
  require_shape(inputs[0].shape.size() == 1, name, inputs, "x must be [n]");
  require_shape(inputs[1].dtype == DType::int64 && inputs[1].shape.size() == 2 && inputs[1].shape[1] == 2, name, inputs,
                "ranges must be int64 [m, 2]");
  return {{.spec = {{inputs[1].shape[0]}, DType::float64}}};
}

}  // namespace maxtext
