#include "ops/merge_states.h"

namespace maxtext {

std::vector<OutputSpec> MergeStates::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {has_sinks ? 4U : 3U});
  const Shape& o = inputs[0].shape;
  require_shape(o.size() == 5 && inputs[0].dtype == DType::float32, name, inputs,
                "o must be float32 [n, B, T, query_heads, D]");
  const TensorSpec residuals{{o[0], o[1], o[3], o[2]}, DType::float32};
  require_shape(inputs[1] == residuals && inputs[2] == residuals, name, inputs,
                "l and m must be float32 [n, B, query_heads, T]");
  if (has_sinks) {
    require_shape(inputs[3] == TensorSpec{{o[3]}, DType::float32}, name, inputs, "sinks must be float32 [query_heads]");
  }
  const TensorSpec residual{{o[1], o[3], o[2]}, DType::float32};
  return {{.spec = {{o[1], o[2], o[3], o[4]}, DType::float32}}, {.spec = residual}, {.spec = residual}};
}

}  // namespace maxtext
