#include "checkpoint/weight_check.h"

#include <set>

#include "base/error.h"
#include "model/layout.h"

namespace maxtext {
namespace {

void check_tensor(const ParameterInfo& parameter, const WeightSource& weights) {
  if (!weights.contains(parameter.name)) {
    fail_config("there is no tensor '{}', expected with the shape {}", parameter.name, to_string(parameter.shape));
  }
  const TensorSpec stored = weights.spec(parameter.name);
  if (stored.shape != parameter.shape) {
    fail_config("tensor '{}': expected the shape {}, found {}", parameter.name, to_string(parameter.shape),
                to_string(stored.shape));
  }
  if (stored.dtype != DType::float32 && stored.dtype != DType::bfloat16 && stored.dtype != DType::float16) {
    fail_config("tensor '{}': expected float32, bfloat16 or float16, found {}", parameter.name,
                dtype_name(stored.dtype));
  }
}

}  // namespace

void check_weights(const WeightSource& weights, const ModelShape& shape) {
  std::set<std::string_view> expected{"lm_head.weight"};
  const ModelLayout layout = model_layout(shape);
  for (const ParameterGroup& group : layout.groups) {
    for (const ParameterInfo& parameter : group.parameters) {
      check_tensor(parameter, weights);
      expected.insert(parameter.name);
    }
  }
  for (const std::string& name : weights.names()) {
    // Old files keep RoPE's frequencies, which follow from the configuration.
    if (expected.contains(name) || name.ends_with("rotary_emb.inv_freq")) continue;
    fail_config("tensor '{}' is not part of this model", name);
  }
}

}  // namespace maxtext
