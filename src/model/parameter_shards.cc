#include "model/parameter_shards.h"

#include <utility>

#include "base/error.h"

namespace maxtext {

ParameterShards::ParameterShards(Engine& engine, ModelLayout layout, DType dtype, std::optional<DType> computed)
    : engine_(engine),
      layout_(std::move(layout)),
      dtype_(dtype),
      computed_(computed.value_or(dtype)),
      shard_index_(engine.mesh().group_rank(engine.device(), kShardAxes)) {
  const MemoryKindScope scope(engine.memory(), MemoryKind::parameters);
  for_each_stack(layout_, [&](std::size_t first, std::int64_t rows) {
    const TensorSpec spec{{layout_.groups[first].length()}, dtype};
    if (rows == 1) {
      shards_.push_back(engine.allocate_shard(spec, kShardAxes));
    } else {
      const std::vector<Tensor> stack = engine.allocate_shard_stack(rows, spec, kShardAxes);
      shards_.insert(shards_.end(), stack.begin(), stack.end());
    }
  });
  gathered_.resize(layout_.groups.size());
  gradients_.resize(layout_.groups.size());
  for (std::size_t g = 0; g < gradients_.size(); ++g) {
    gradients_[g].slots.resize(layout_.groups[g].parameters.size());
  }
}

const Tensor& ParameterShards::gradient(std::size_t group) const {
  if (!reductions_.empty()) fail("gradients were asked for while {} are being reduced", reductions_.size());
  if (!layer_gradients_.empty() && layout_.is_layer(group)) return layer_gradients_[layer_row(group)];
  return gradients_[group].reduced;
}

void ParameterShards::clear_gradients() {
  for (GroupGradient& gradient : gradients_) gradient.reduced = Tensor();
  layer_gradients_.clear();
}

void ParameterShards::initialise(std::uint64_t seed) {
  for (std::size_t g = 0; g < layout_.groups.size(); ++g) {
    const ParameterGroup& group = layout_.groups[g];
    for (std::size_t k = 0; k < group.parameters.size(); ++k) {
      const ParameterRange range = parameter_range(group, k, shard_index_);
      if (range.count == 0 || !engine_.has_data()) continue;
      const std::vector<float> values = initial_values(group, k, range, seed);
      const Tensor target = shards_[g].view(range.shard_offset, {range.count});
      if (dtype_ == DType::float64) {
        const std::vector<double> wide(values.begin(), values.end());
        engine_.write(target, std::as_bytes(std::span(wide)));
      } else {
        engine_.write(target, std::as_bytes(std::span(values)));
      }
    }
  }
}

void ParameterShards::prefetch(std::size_t index) {
  // A traced iteration stands for all of them: it gathers what it uses.
  if (engine_.traces_loops() && layout_.is_layer(index)) return;
  gather(index);
}

void ParameterShards::gather(std::size_t index) {
  if (gathered_[index].has_value()) return;
  const MemoryKindScope scope(engine_.memory(), MemoryKind::gathered_parameters);
  const ParameterGroup& group = layout_.groups[index];
  GatheredGroup gathered;
  Tensor shard = shards_[index];
  if (computed_ != dtype_) shard = engine_.apply_one(Cast{.dtype = computed_}, {shard});
  gathered.flat = engine_.apply_one(AllGather{.axes = kShardAxes, .group_size = group.shards}, {shard});
  gathered_[index] = std::move(gathered);
}

const GatheredGroup& ParameterShards::acquire(std::size_t index) {
  gather(index);
  GatheredGroup& gathered = *gathered_[index];
  if (gathered.parameters.empty()) {
    const ParameterGroup& group = layout_.groups[index];
    for (std::size_t k = 0; k < group.parameters.size(); ++k) {
      gathered.parameters.push_back(
          engine_.apply_one(View{.first_element = group.offsets[k], .shape = group.slices[k].shape}, {gathered.flat}));
    }
  }
  return gathered;
}

void ParameterShards::release(std::size_t index) { gathered_[index].reset(); }

std::vector<GradientSlot*> ParameterShards::gradient_slots(std::size_t group) {
  std::vector<GradientSlot*> pointers;
  for (GradientSlot& slot : gradients_[group].slots) pointers.push_back(&slot);
  return pointers;
}

void ParameterShards::begin_gradients(std::size_t index) {
  GroupGradient& gradient = gradients_[index];
  if (gradient.flat.defined()) return;
  const MemoryKindScope scope(engine_.memory(), MemoryKind::gradients);
  const ParameterGroup& group = layout_.groups[index];
  gradient.flat = engine_.allocate({{group.shards, group.shard_length}, accumulation_dtype(dtype_)});
  for (std::size_t k = 0; k < group.parameters.size(); ++k) {
    gradient.slots[k].destination =
        engine_.apply_one(View{.first_element = group.offsets[k], .shape = group.slices[k].shape}, {gradient.flat});
    gradient.slots[k].accumulate = false;
  }
}

void ParameterShards::reduce_gradients(std::size_t index) {
  const MemoryKindScope scope(engine_.memory(), MemoryKind::gradients);
  GroupGradient& gradient = gradients_[index];
  const ParameterGroup& group = layout_.groups[index];
  Reduction reduction{
      .group = index,
      .over_replicas = false,
      .partial = engine_.apply_one(ReduceScatter{.axes = kShardAxes, .group_size = group.shards}, {gradient.flat})};
  gradient.flat = Tensor();
  for (GradientSlot& slot : gradient.slots) slot = GradientSlot();
  if (engine_.traces_loops()) {
    // Nothing may be left for the next iteration, and the compiler decides what travels when.
    while (!advance(reduction)) continue;
    return;
  }
  // In a group of one nothing travelled, and the next step is due.
  if (group.shards > 1 || !advance(reduction)) reductions_.push_back(std::move(reduction));
}

void ParameterShards::advance_reductions() {
  const MemoryKindScope scope(engine_.memory(), MemoryKind::gradients);
  std::vector<Reduction> unfinished;
  for (Reduction& reduction : reductions_) {
    if (!advance(reduction)) unfinished.push_back(std::move(reduction));
  }
  reductions_ = std::move(unfinished);
}

bool ParameterShards::needs_replicas(const Reduction& reduction) const {
  return engine_.mesh().size(Axis::data) > 1 && !reduction.over_replicas;
}

bool ParameterShards::advance(Reduction& reduction) {
  if (needs_replicas(reduction)) {
    const AllReduce over_replicas{.axes = Axis::data, .group_size = engine_.mesh().size(Axis::data)};
    reduction.partial = engine_.apply_one(over_replicas, {reduction.partial});
    reduction.over_replicas = true;
    return false;
  }
  // Until it is waited for, the collective keeps the whole group's gradient alive: with many layers, that of the model.
  reduction.partial.storage()->wait();
  add_gradient(reduction.group, std::move(reduction.partial));
  return true;
}

void ParameterShards::add_gradient(std::size_t group, Tensor gradient) {
  Tensor& sum = gradients_[group].reduced;
  if (sum.defined()) {
    sum = engine_.apply_one(Add{.in_place = true}, {sum, gradient});
  } else if (engine_.traces_loops() && layout_.is_layer(group)) {
    // Reduced inside a loop, used after it.
    if (layer_gradients_.empty()) layer_gradients_ = engine_.allocate_stack(layout_.layers(), gradient.spec());
    sum = engine_.apply_one(Assign{}, {gradient, layer_gradients_[layer_row(group)]});
  } else {
    sum = std::move(gradient);
  }
}

void ParameterShards::finish_reductions() {
  const MemoryKindScope scope(engine_.memory(), MemoryKind::gradients);
  // All that remain travel together before the first is waited for.
  for (Reduction& reduction : reductions_) {
    if (needs_replicas(reduction)) advance(reduction);
  }
  for (Reduction& reduction : reductions_) advance(reduction);
  reductions_.clear();
}

}  // namespace maxtext
