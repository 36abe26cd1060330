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
  const ModelLayout& layout = parameters_.layout();
  const MemoryKindScope scope(engine.memory(), MemoryKind::optimizer);
  for (const ParameterGroup& group : layout.groups) {
    const std::vector<std::int64_t> ranges = shard_ranges(group, parameters_.shard_index());
    ranges_.push_back(engine.input({{static_cast<std::int64_t>(group.parameters.size()), 2}, DType::int64},
                                   std::as_bytes(std::span(ranges))));
  }
  if (options_.type == OptimizerType::sgd) return;
  for_each_stack(layout, [&](std::size_t first, std::int64_t rows) {
    const TensorSpec spec{{layout.groups[first].shard_length}, accumulation_dtype(parameters_.shard(first).dtype())};
    for (std::vector<Tensor>* moments : {&first_moments_, &second_moments_}) {
      const std::vector<Tensor> stack = engine.zeros_stack(rows, spec);
      moments->insert(moments->end(), stack.begin(), stack.end());
    }
  });
}

void Optimizer::for_each_group(const std::function<void(std::size_t group)>& visit) const {
  for_each_stack(parameters_.layout(), [&](std::size_t first, std::int64_t rows) {
    const auto begin = static_cast<std::int64_t>(first);
    if (rows == 1) return visit(first);
    parameters_.engine().loop({.begin = 0, .end = rows},
                              [&](std::int64_t row) { visit(static_cast<std::size_t>(begin + row)); });
  });
}

Tensor Optimizer::sums_of_squares() const {
  Engine& engine = parameters_.engine();
  const ModelLayout& layout = parameters_.layout();
  std::vector<Tensor> parts;
  for_each_stack(layout, [&](std::size_t first, std::int64_t rows) {
    const TensorSpec spec{{std::ssize(layout.groups[first].parameters)}, DType::float64};
    const std::vector<Tensor> stack = engine.allocate_stack(rows, spec);
    parts.insert(parts.end(), stack.begin(), stack.end());
  });
  for_each_group([&](std::size_t group) {
    const Tensor sums = engine.apply_one(SumOfSquares{}, {parameters_.gradient(group), ranges_[group]});
    engine.apply_one(Assign{}, {sums, parts[group]});
  });
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
  for_each_group([&](std::size_t g) {
    if (options_.type == OptimizerType::sgd) {
      parameters_.set_shard(
          g, engine.apply_one(Sgd{}, {parameters_.shard(g), parameters_.gradient(g), schedule, clip[0]}));
      return;
    }
    const std::vector<Tensor> updated = engine.apply(
        options_.adamw,
        {parameters_.shard(g), parameters_.gradient(g), first_moments_[g], second_moments_[g], schedule, clip[0]});
    parameters_.set_shard(g, updated[0]);
    first_moments_[g] = updated[1];
    second_moments_[g] = updated[2];
  });
  parameters_.clear_gradients();
  return {.gradient_norm = clip[1], .sums_of_squares = sums};
}

}  // namespace maxtext
