#include "ops/optimizer.h"

namespace maxtext {
namespace {

void check_shards(std::string_view name, InputSpecs shards, InputSpecs inputs) {
  const DType dtype = shards[0].dtype;
  require_shape(dtype == DType::float32 || dtype == DType::float64, name, inputs,
                "updates float32 or float64 shards only");
  for (const TensorSpec& shard : shards) {
    require_shape(shard.shape.size() == 1 && shard == shards[0], name, inputs, "shards must be [n], of one dtype");
  }
}

void check_scalars(std::string_view name, const TensorSpec& schedule, const TensorSpec& clip, InputSpecs inputs) {
  require_shape(schedule == TensorSpec{{3}, DType::float32}, name, inputs, "schedule must be float32 [3]");
  require_shape(clip == TensorSpec{{2}, DType::float32}, name, inputs, "clip must be float32 [2]");
}

}  // namespace

std::vector<OutputSpec> ClipFactor::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {1});
  require_shape(inputs[0].dtype == DType::float64 && inputs[0].shape.size() == 1, name, inputs,
                "sums of squares must be float64 [n]");
  return {{.spec = {{2}, DType::float32}}, {.spec = {{}, DType::float32}}};
}

std::vector<OutputSpec> AdamW::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {6});
  check_shards(name, inputs.first(4), inputs);
  check_scalars(name, inputs[4], inputs[5], inputs);
  return {{.spec = inputs[0], .aliases_input = 0},
          {.spec = inputs[2], .aliases_input = 2},
          {.spec = inputs[3], .aliases_input = 3}};
}

std::vector<OutputSpec> Sgd::infer(InputSpecs inputs) const {
  require_arity(name, inputs, {4});
  check_shards(name, inputs.first(2), inputs);
  check_scalars(name, inputs[2], inputs[3], inputs);
  return {{.spec = inputs[0], .aliases_input = 0}};
}

}  // namespace maxtext
