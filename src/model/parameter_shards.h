// One device's shards of all parameters and of their gradients, and how they are gathered and reduced.
#pragma once

#include <optional>
#include <vector>

#include "autodiff/repeat.h"
#include "model/layout.h"

namespace maxtext {

/// The axes over which parameters, gradients and moments are sharded.
inline constexpr AxisSet kShardAxes = Axis::fsdp | Axis::context;

/// The gathered parameters of one group: views of one flat tensor.
struct GatheredGroup {
  Tensor flat;
  std::vector<Tensor> parameters;
};

class ParameterShards {
 public:
  /// Allocates the shards, uninitialised. Collective.
  ParameterShards(Engine& engine, ModelLayout layout, DType dtype = DType::float32);

  const ModelLayout& layout() const { return layout_; }
  Engine& engine() const { return engine_; }
  int shard_index() const { return shard_index_; }

  /// This device's shard of a group, [shard_length].
  const Tensor& shard(std::size_t group) const { return shards_[group]; }
  void set_shard(std::size_t group, Tensor shard) { shards_[group] = std::move(shard); }

  /// The reduced fp32 gradient of the shard, summed over all micro-batches so far; undefined before the first.
  const Tensor& gradient(std::size_t group) const { return gradients_[group].reduced; }
  void clear_gradients();

  /// Writes the initial values of `seed`.
  void initialise(std::uint64_t seed);

  /// Starts the all_gather of a group; `acquire` waits for it (or starts and waits).
  void prefetch(std::size_t group);
  const GatheredGroup& acquire(std::size_t group);
  void release(std::size_t group);

  /// Slots of a group's parameters, views of one flat buffer that `reduce_gradients` sums over devices into the shard.
  std::vector<GradientSlot*> gradient_slots(std::size_t group);
  void begin_gradients(std::size_t group);
  void reduce_gradients(std::size_t group);

 private:
  struct GroupGradient {
    Tensor flat;
    std::vector<GradientSlot> slots;
    Tensor reduced;
  };

  Engine& engine_;
  ModelLayout layout_;
  DType dtype_;
  int shard_index_;
  std::vector<Tensor> shards_;
  std::vector<std::optional<GatheredGroup>> gathered_;
  std::vector<GroupGradient> gradients_;
};

/// The layers of a model as the parameters of `repeat`: iteration i is layer i.
class LayerParameterSource final : public ParameterSource {
 public:
  explicit LayerParameterSource(ParameterShards& shards) : shards_(shards) {}
  void prefetch(int iteration) override { shards_.prefetch(group(iteration)); }
  std::vector<Tensor> acquire(int iteration) override { return shards_.acquire(group(iteration)).parameters; }
  void release(int iteration) override { shards_.release(group(iteration)); }
  std::vector<GradientSlot*> gradient_slots(int iteration) override { return shards_.gradient_slots(group(iteration)); }
  void begin_gradients(int iteration) override { shards_.begin_gradients(group(iteration)); }
  void gradients_ready(int iteration) override { shards_.reduce_gradients(group(iteration)); }

 private:
  std::size_t group(int iteration) const { return shards_.layout().layer_group(iteration); }
  ParameterShards& shards_;
};

}  // namespace maxtext
