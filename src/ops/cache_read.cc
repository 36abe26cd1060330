#include "ops/cache_read.h"

namespace maxtext {

std::vector<OutputSpec> CacheRead::infer(InputSpecs inputs) const {
  const bool quantised = !inputs.empty() && inputs[0].dtype == DType::int8;
  require_arity(name, inputs, {quantised ? 2U : 1U});
  const TensorSpec& cache = inputs[0];
  require_shape(cache.shape.size() == 4 && cache.shape[0] == 1, name, inputs,
                "cache must be [1, kv_heads, capacity, D]");
  if (quantised) {
    require_shape(inputs[1] == TensorSpec{{1, cache.shape[1], cache.shape[2]}, DType::float32}, name, inputs,
                  "scales must be float32 [1, kv_heads, capacity]");
  } else {
    require_floating(cache.dtype, name, inputs);
  }
  require_shape(kv_head >= 0 && kv_head < cache.shape[1], name, inputs, "kv_head must be one of the cache's");
  require_shape(length >= 0 && length <= cache.shape[2], name, inputs, "length must lie within the capacity");
  const TensorSpec rows{{1, 1, length, 1, cache.shape[3]}, DType::float32};
  if (cache.dtype == DType::float32) return {view_of(0, rows, kv_head * cache.shape[2] * cache.shape[3])};
  return {{.spec = rows}};
}

}  // namespace maxtext
