#include "ops/cache_append.h"

namespace maxtext {

std::vector<OutputSpec> CacheAppend::infer(InputSpecs inputs) const {
  require_shape(inputs.size() >= 3, name, inputs, "wrong number of inputs");
  const Shape& cache = inputs[0].shape;
  const Shape& rows = inputs[1].shape;
  const DType dtype = inputs[0].dtype;
  const bool quantized = dtype == DType::int8;
  const std::size_t rows_input = quantized ? 4 : 3;
  require_arity(name, inputs, {rows_input + (has_rows ? 1U : 0U)});
  const bool known = quantized || dtype == DType::float32 || dtype == DType::bfloat16 || dtype == DType::float16;
  require_shape(cache.size() == 4 && cache[2] > 0 && known, name, inputs,
                "the cache must be [B, kv_heads, capacity, D] in float32, bfloat16, float16 or int8");
  require_shape(rows.size() == 4 && inputs[1].dtype == DType::float32, name, inputs,
                "new rows must be float32 [B, T, kv_heads, D]");
  require_shape(rows[0] == cache[0] && rows[2] == cache[1] && rows[3] == cache[3], name, inputs,
                "cache and new rows must agree in batch, kv_heads and head_dim");
  const TensorSpec lengths{{cache[0]}, DType::int32};
  require_shape(inputs[2] == lengths, name, inputs, "position must be int32 [B]");
  if (has_rows) require_shape(inputs[rows_input] == lengths, name, inputs, "rows must be int32 [B]");
  std::vector<OutputSpec> outputs{{.spec = inputs[0], .aliases_input = 0}};
  if (quantized) {
    const TensorSpec scales{{cache[0], cache[1], cache[2]}, DType::float32};
    require_shape(inputs[3] == scales, name, inputs, "scales must be float32 [B, kv_heads, capacity]");
    outputs.push_back({.spec = scales, .aliases_input = 3});
  }
  return outputs;
}

}  // namespace maxtext
