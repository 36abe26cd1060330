#include "ops/cross_entropy.h"

#include <algorithm>

namespace maxtext {

std::int64_t cross_entropy_chunk_tokens(std::int64_t wanted, std::int64_t vocabulary, std::int64_t element_bytes,
                                        std::int64_t alive) {
  constexpr std::int64_t kMostLogitBytes = std::int64_t{256} << 20;
  constexpr std::int64_t kLeastChunkTokens = 256;
  const std::int64_t affordable = kMostLogitBytes / (alive * vocabulary * element_bytes) / 32 * 32;
  return std::min(wanted, std::max(affordable, kLeastChunkTokens / alive));
}

std::vector<OutputSpec> LinearCrossEntropy::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {with_gradient ? 6U : 5U});
  const TensorSpec& hidden = inputs[0];
  const TensorSpec& weight = inputs[1];
  require_floating(hidden.dtype, name, inputs);
  require_shape(!hidden.shape.empty() && weight.shape.size() == 2 && weight.shape[1] == hidden.shape.back() &&
                    weight.dtype == hidden.dtype,
                name, inputs, "expected hidden [..., E] and weight [V, E] of one dtype");
  const Shape tokens(hidden.shape.begin(), hidden.shape.end() - 1);
  require_shape(inputs[2] == TensorSpec{tokens, DType::int32}, name, inputs, "targets must be int32 [...]");
  require_shape(inputs[3] == TensorSpec{tokens, DType::float32}, name, inputs, "target_weights must be float32 [...]");
  require_shape(inputs[4] == TensorSpec{{}, DType::float32}, name, inputs, "inverse_denominator must be float32 []");
  require_shape(chunk_tokens >= 1, name, inputs, "chunk_tokens must be at least 1");
  require_shape(softcap >= 0, name, inputs, "softcap must be positive, or 0 for none");
  std::vector<OutputSpec> outputs{{.spec = {{2}, DType::float64}}, {.spec = {tokens, DType::float32}}};
  if (with_gradient) {
    require_shape(inputs[5] == TensorSpec{weight.shape, accumulation_dtype(weight.dtype)}, name, inputs,
                  "destination must be [V, E] in the accumulation dtype");
    outputs.push_back({.spec = hidden});
    outputs.push_back({.spec = inputs[5], .aliases_input = 5});
  }
  return outputs;
}

double LinearCrossEntropy::flops(InputSpecs inputs) const {
  const double forward =
      2.0 * static_cast<double>(row_count(inputs[0].shape)) * static_cast<double>(inputs[1].elements());
  return with_gradient ? 3 * forward : forward;
}

}  // namespace maxtext
