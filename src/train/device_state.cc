#include "train/device_state.h"

#include <set>

#include "base/error.h"
#include "checkpoint/slice_values.h"

namespace maxtext {
namespace {

/// A kind of state and the shards that hold it.
struct StateKind {
  std::string_view kind;
  std::vector<Tensor> shards;
};

std::vector<StateKind> state_kinds(ParameterShards& parameters, const Optimizer& optimizer) {
  std::vector<StateKind> kinds = {{kWeights, {}}};
  if (optimizer.has_moments()) {
    kinds.push_back({kFirstMoment, {}});
    kinds.push_back({kSecondMoment, {}});
  }
  for (std::size_t g = 0; g < parameters.layout().groups.size(); ++g) {
    kinds[0].shards.push_back(parameters.shard(g));
    if (!optimizer.has_moments()) continue;
    kinds[1].shards.push_back(optimizer.first_moment(g));
    kinds[2].shards.push_back(optimizer.second_moment(g));
  }
  return kinds;
}

/// Calls visit(group, parameter index, range) for each parameter of which this device has a part.
template <typename Visit>
void for_each_range(const ParameterShards& parameters, Visit visit) {
  for (std::size_t g = 0; g < parameters.layout().groups.size(); ++g) {
    const ParameterGroup& group = parameters.layout().groups[g];
    for (std::size_t k = 0; k < group.parameters.size(); ++k) {
      const ParameterRange range = parameter_range(group, k, parameters.shard_index());
      if (range.count > 0) visit(g, k, range);
    }
  }
}

/// Where a device's part of a parameter is in the whole one: a range of its elements, or of a block of its columns.
BlockRange stored_range(const ParameterGroup& group, std::size_t k, const ParameterRange& range) {
  const ParameterSlice& slice = group.slices[k];
  const Shape& whole = group.parameters[k].shape;
  if (slice.dimension > 0) {
    return {.block = {slice.begin, slice.shape.back()}, .first = range.first, .count = range.count};
  }
  const std::int64_t row = slice.begin == 0 ? 0 : element_count(whole) / whole.front();
  return {.block = {}, .first = slice.begin * row + range.first, .count = range.count};
}

void check_shape(const std::string& where, const ParameterInfo& parameter, const TensorSpec& found) {
  if (found.shape != parameter.shape) {
    fail("{}: tensor {} has shape {}, but the model needs {}", where, parameter.name, to_string(found.shape),
         to_string(parameter.shape));
  }
}

void check_names(const std::string& where, const ParameterShards& parameters, const std::vector<std::string>& names) {
  std::set<std::string> needed;
  for (const ParameterGroup& group : parameters.layout().groups) {
    for (const ParameterInfo& parameter : group.parameters) needed.insert(parameter.name);
  }
  for (const std::string& name : names) {
    if (needed.erase(name) == 0) fail("{}: tensor {} is not part of this model", where, name);
  }
  if (!needed.empty()) fail("{}: tensor {} of this model is missing", where, *needed.begin());
}

bool owns_state(const ParameterShards& parameters) {
  return parameters.engine().mesh().group_rank(parameters.engine().device(), Axis::data) == 0;
}

}  // namespace

DeviceState device_state(ParameterShards& parameters, const Optimizer& optimizer) {
  Engine& engine = parameters.engine();
  DeviceState state{.device = engine.device(), .ranges = {}};
  if (!owns_state(parameters)) return state;
  for (const StateKind& kind : state_kinds(parameters, optimizer)) {
    for_each_range(parameters, [&](std::size_t g, std::size_t k, const ParameterRange& range) {
      const ParameterGroup& group = parameters.layout().groups[g];
      if (!group.slices[k].counts) return;
      const Tensor part = kind.shards[g].view(range.shard_offset, {range.count});
      const std::span<const std::byte> bytes = engine.host_bytes(part);
      if (bytes.empty()) fail("this engine's memory cannot be saved in place");
      const BlockRange stored = stored_range(group, k, range);
      state.ranges.push_back({.kind = std::string(kind.kind),
                              .name = group.parameters[k].name,
                              .spec = {group.parameters[k].shape, part.dtype()},
                              .first = stored.first,
                              .count = stored.count,
                              .bytes = bytes,
                              .block = stored.block});
    });
  }
  return state;
}

void restore_state(const CheckpointReader& checkpoint, ParameterShards& parameters, Optimizer& optimizer,
                   std::string_view opt_type) {
  Engine& engine = parameters.engine();
  const std::string where = checkpoint.directory().string();
  for (const StateKind& kind : state_kinds(parameters, optimizer)) {
    if (checkpoint.names(kind.kind).empty()) {
      fail(
          "{}: it has no {}, from which opt_type={} goes on; use the opt_type of the run that saved it, or start a run "
          "of another run_name from its weights alone with load_parameters_path={}",
          where, kind.kind, opt_type, where);
    }
    check_names(where, parameters, checkpoint.names(kind.kind));
    for_each_range(parameters, [&](std::size_t g, std::size_t k, const ParameterRange& range) {
      const ParameterInfo& parameter = parameters.layout().groups[g].parameters[k];
      const TensorSpec& stored = checkpoint.spec(kind.kind, parameter.name);
      check_shape(where, parameter, stored);
      const Tensor part = kind.shards[g].view(range.shard_offset, {range.count});
      if (stored.dtype != part.dtype()) {
        fail("{}: tensor {} is {}, but the run needs {}", where, parameter.name, dtype_name(stored.dtype),
             dtype_name(part.dtype()));
      }
      std::vector<std::byte> bytes(static_cast<std::size_t>(part.spec().bytes()));
      const BlockRange place = stored_range(parameters.layout().groups[g], k, range);
      checkpoint.read_block(kind.kind, parameter.name, place.block, place.first, place.count, bytes);
      engine.write(part, bytes);
    });
  }
}

void load_weights(const WeightSource& source, ParameterShards& parameters) {
  Engine& engine = parameters.engine();
  for_each_range(parameters, [&](std::size_t g, std::size_t k, const ParameterRange& range) {
    const ParameterGroup& group = parameters.layout().groups[g];
    const std::vector<float> values = read_slice_as_float(source, group.parameters[k], group.slices[k], range);
    const Tensor part = parameters.shard(g).view(range.shard_offset, {range.count});
    if (part.dtype() == DType::float64) {
      const std::vector<double> wide(values.begin(), values.end());
      engine.write(part, std::as_bytes(std::span(wide)));
    } else {
      engine.write(part, std::as_bytes(std::span(values)));
    }
  });
}

}  // namespace maxtext
