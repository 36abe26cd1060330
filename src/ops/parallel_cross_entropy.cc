#include "ops/parallel_cross_entropy.h"

namespace maxtext {
namespace {

bool is_first_row(const TensorSpec& spec) { return spec == TensorSpec{{}, DType::int32}; }

bool is_computed(DType dtype) { return dtype == accumulation_dtype(dtype); }

}  // namespace

std::vector<OutputSpec> LogitStatistics::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {3});
  const TensorSpec& logits = inputs[0];
  require_shape(logits.shape.size() == 2 && is_computed(logits.dtype), name, inputs,
                "logits must be float32 or float64 [N, V]");
  const std::int64_t tokens = logits.shape[0];
  require_shape(inputs[1] == TensorSpec{{tokens}, DType::int32}, name, inputs, "targets must be int32 [N]");
  require_shape(is_first_row(inputs[2]), name, inputs, "first_row must be int32 []");
  return {{.spec = {{3, tokens}, logits.dtype}}};
}

std::vector<OutputSpec> CrossEntropyFromStatistics::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {with_gradient ? 6U : 3U});
  const TensorSpec& statistics = inputs[0];
  require_shape(statistics.shape.size() == 3 && statistics.shape[1] == 3 && is_computed(statistics.dtype), name, inputs,
                "statistics must be float32 or float64 [P, 3, N]");
  const Shape tokens{statistics.shape[2]};
  require_shape(inputs[1] == TensorSpec{tokens, DType::int32}, name, inputs, "targets must be int32 [N]");
  require_shape(inputs[2] == TensorSpec{tokens, DType::float32}, name, inputs, "target_weights must be float32 [N]");
  require_shape(vocabulary >= 1, name, inputs, "vocabulary must be at least 1");
  require_shape(softcap >= 0, name, inputs, "softcap must be positive, or 0 for none");
  std::vector<OutputSpec> outputs{{.spec = {{2}, DType::float64}}, {.spec = {tokens, DType::float32}}};
  if (with_gradient) {
    const TensorSpec& logits = inputs[3];
    require_shape(logits.shape.size() == 2 && logits.shape[0] == tokens[0] && logits.dtype == statistics.dtype, name,
                  inputs, "logits must be [N, V] in the dtype of the statistics");
    require_shape(inputs[4] == TensorSpec{{}, DType::float32}, name, inputs, "inverse_denominator must be float32 []");
    require_shape(is_first_row(inputs[5]), name, inputs, "first_row must be int32 []");
    outputs.push_back({.spec = logits, .aliases_input = 3});
  }
  return outputs;
}

}  // namespace maxtext
