#include "ops/reduction.h"

#include <algorithm>

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
  require_arity(name, inputs, {1});
  check_summable(name, inputs[0], inputs);
  require_shape(inputs[0].shape.size() == 1, name, inputs, "x must be [n]");
  require_shape(!offsets.empty() && offsets.front() >= 0 && offsets.back() <= inputs[0].shape[0] &&
                    std::is_sorted(offsets.begin(), offsets.end()),
                name, inputs, "offsets must ascend within [0, n]");
  return {{.spec = {{static_cast<std::int64_t>(offsets.size()) - 1}, DType::float64}}};
}

}  // namespace maxtext
