#include "train/optimizer.h"

#include <array>
#include <cmath>

namespace maxtext {
namespace {

/// Begin and end of each parameter's part in the shard; empty for those without a part, and for those of which another
/// device has the same one and counts it.
std::vector<std::int64_t> shard_ranges(const ParameterGroup& group, int shard) {
  std::vector<std::int64_t> ranges;
  for (std::size_t k = 0; k < group.parameters.size(); ++k) {
    const ParameterRange range = parameter_range(group, k, shard);
    ranges.push_back(range.shard_offset);
    ranges.push_back(range.shard_offset + (group.slices[k].counts ? range.count : 0));
  }
  return ranges;
}

}  // namespace

Optimizer::Optimizer(ParameterShards& parameters, OptimizerOptions options)
    : parameters_(parameters), options_(options) {
  Engine& engine = parameters_.engine();
  const MemoryKindScope scope(engine.memory(), MemoryKind::optimizer);
  for (std::size_t g = 0; g < parameters_.layout().groups.size(); ++g) {
    const ParameterGroup& group = parameters_.layout().groups[g];
    const std::vector<std::int64_t> ranges = shard_ranges(group, parameters_.shard_index());
    ranges_.push_back(engine.input({{static_cast<std::int64_t>(group.parameters.size()), 2}, DType::int64},
                                   std::as_bytes(std::span(ranges))));
    if (options_.type == OptimizerType::sgd) continue;
    const Fill zero{.spec = {{group.shard_length}, accumulation_dtype(parameters_.shard(g).dtype())}, .value = 0};
    first_moments_.push_back(engine.apply_one(zero, {}));
    second_moments_.push_back(engine.apply_one(zero, {}));
  }
}

Tensor Optimizer::sums_of_squares() const {
  Engine& engine = parameters_.engine();
  std::vector<Tensor> parts;
  for (std::size_t g = 0; g < parameters_.layout().groups.size(); ++g) {
    parts.push_back(engine.apply_one(SumOfSquares{}, {parameters_.gradient(g), ranges_[g]}));
  }
  const Tensor local = engine.apply(Concat{.axis = 0}, parts)[0];
  constexpr AxisSet kParts = kShardAxes | kTensorAxes;
  return engine.apply_one(AllReduce{.axes = kParts, .group_size = engine.mesh().size(kParts)}, {local});
}

Optimizer::Result Optimizer::update(std::int64_t step, double learning_rate,
                                    const std::function<void()>& before_update) {
  Engine& engine = parameters_.engine();
  parameters_.finish_reductions();
  const MemoryKindScope scope(engine.memory(), MemoryKind::optimizer);
  const Tensor sums = sums_of_squares();
  const std::vector<Tensor> clip = engine.apply(ClipFactor{.threshold = options_.gradient_clipping_threshold}, {sums});
  const double t = static_cast<double>(step) + 1;
  const std::array<float, 3> schedule_values{static_cast<float>(learning_rate),
                                             static_cast<float>(1 - std::pow(options_.adamw.b1, t)),
                                             static_cast<float>(1 - std::pow(options_.adamw.b2, t))};
  const Tensor schedule = engine.input({{3}, DType::float32}, std::as_bytes(std::span(schedule_values)));
  if (before_update) before_update();
  for (std::size_t g = 0; g < parameters_.layout().groups.size(); ++g) {
    if (options_.type == OptimizerType::sgd) {
      parameters_.set_shard(
          g, engine.apply_one(Sgd{}, {parameters_.shard(g), parameters_.gradient(g), schedule, clip[0]}));
      continue;
    }
    const std::vector<Tensor> updated = engine.apply(
        options_.adamw,
        {parameters_.shard(g), parameters_.gradient(g), first_moments_[g], second_moments_[g], schedule, clip[0]});
    parameters_.set_shard(g, updated[0]);
    first_moments_[g] = updated[1];
    second_moments_[g] = updated[2];
  }
  parameters_.clear_gradients();
  return {.gradient_norm = clip[1], .sums_of_squares = sums};
}

}  // namespace maxtext
