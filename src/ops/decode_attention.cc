#include "ops/decode_attention.h"

namespace maxtext {
namespace {

bool is_cache_dtype(DType dtype) {
  return dtype == DType::float32 || dtype == DType::bfloat16 || dtype == DType::float16 || dtype == DType::int8;
}

}  // namespace

std::vector<OutputSpec> DecodeAttention::infer(InputSpecs inputs) const {
  require_shape(inputs.size() >= 5, name, inputs, "wrong number of inputs");
  const Shape& q = inputs[0].shape;
  const Shape& k = inputs[1].shape;
  const bool quantized = inputs[1].dtype == DType::int8;
  const std::size_t sinks = quantized ? 7 : 5;
  require_arity(name, inputs, {sinks + (has_sinks ? 1U : 0U)});
  require_shape(q.size() == 4 && q[1] >= 1 && inputs[0].dtype == DType::float32, name, inputs,
                "q must be float32 [B, T, query_heads, D] with T at least 1");
  require_shape(k.size() == 4 && inputs[1] == inputs[2] && is_cache_dtype(inputs[1].dtype), name, inputs,
                "k and v must have one spec [B, kv_heads, capacity, D] in float32, bfloat16, float16 or int8");
  require_shape(k[0] == q[0] && k[3] == q[3] && k[3] > 0, name, inputs, "q and k must agree in batch and head_dim");
  require_shape(k[1] > 0 && q[2] > 0 && q[2] % k[1] == 0, name, inputs, "query_heads must be a multiple of kv_heads");
  require_shape(k[2] > 0, name, inputs, "the capacity must be at least 1");
  const TensorSpec lengths{{q[0]}, DType::int32};
  require_shape(inputs[3] == lengths && inputs[4] == lengths, name, inputs,
                "start_idx and kv_seq_len must be int32 [B]");
  if (quantized) {
    const TensorSpec scales{{k[0], k[1], k[2]}, DType::float32};
    require_shape(inputs[5] == scales && inputs[6] == scales, name, inputs,
                  "k_scale and v_scale must be float32 [B, kv_heads, capacity]");
  }
  if (has_sinks) {
    require_shape(inputs[sinks] == TensorSpec{{q[2]}, DType::float32}, name, inputs,
                  "sinks must be float32 [query_heads]");
  }
  require_shape(window >= 0 && softcap >= 0, name, inputs, "window and softcap must not be negative");
  const TensorSpec residual{{q[0], q[2], q[1]}, DType::float32};
  return {{.spec = inputs[0]}, {.spec = residual}, {.spec = residual}};
}

}  // namespace maxtext
