// One device's shards of all parameters and of their gradients, and how they are gathered and reduced.
#pragma once

#include <optional>
#include <vector>

#include "autodiff/repeat.h"
#include "model/layout.h"

namespace maxtext {

/// The gathered parameters of one group: views of one flat tensor.
struct GatheredGroup {
  Tensor flat;
  std::vector<Tensor> parameters;
};

class ParameterShards {
 public:
  /// Allocates the shards, uninitialised. Collective. Gathered parameters are `computed`, by default as the shards are:
  /// bfloat16 halves what travels and what a layer takes, and the shards stay the float32 master weights.
  ParameterShards(Engine& engine, ModelLayout layout, DType dtype = DType::float32,
                  std::optional<DType> computed = std::nullopt);

  const ModelLayout& layout() const { return layout_; }
  Engine& engine() const { return engine_; }
  int shard_index() const { return shard_index_; }

  /// This device's shard of a group, [shard_length].
  const Tensor& shard(std::size_t group) const { return shards_[group]; }
  void set_shard(std::size_t group, Tensor shard) { shards_[group] = std::move(shard); }

  /// The reduced fp32 gradient of the shard, summed over all micro-batches so far; undefined before the first.
  /// Throws Error while reductions are under way (`finish_reductions`).
  const Tensor& gradient(std::size_t group) const;
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
  /// Starts the reduction of a group's gradient over the shards' axes.
  void reduce_gradients(std::size_t group);
  /// Takes the reductions under way one step further: to the all_reduce over replicas, to the sum over micro-batches.
  /// Each step waits for the one before, so it is called when about a layer has been computed in between.
  void advance_reductions();
  /// Takes all reductions through their last step.
  void finish_reductions();

 private:
  /// A shard's gradient of one micro-batch under way.
  struct Reduction {
    std::size_t group = 0;
    bool over_replicas = false;  ///< the all_reduce has begun
    Tensor partial;
  };
  void gather(std::size_t group);
  bool needs_replicas(const Reduction& reduction) const;
  /// True when that was the last step.
  bool advance(Reduction& reduction);
  std::size_t layer_row(std::size_t group) const { return group - layout_.layer_group(0); }
  /// Adds what a micro-batch contributes to a shard's gradient.
  void add_gradient(std::size_t group, Tensor gradient);

  struct GroupGradient {
    Tensor flat;
    std::vector<GradientSlot> slots;
    Tensor reduced;
  };

  Engine& engine_;
  ModelLayout layout_;
  DType dtype_;
  DType computed_;
  int shard_index_;
  std::vector<Tensor> shards_;
  std::vector<std::optional<GatheredGroup>> gathered_;
  std::vector<GroupGradient> gradients_;
  std::vector<Reduction> reductions_;
  /// A stack of all layers' reduced gradients, where loops over layers are traced.
  std::vector<Tensor> layer_gradients_;
};

/// The layers of a model as the parameters of `repeat`: iteration i is layer i.
class LayerParameterSource final : public ParameterSource {
 public:
  /// `following` are the groups that the program needs after the layers.
  LayerParameterSource(ParameterShards& shards, std::vector<std::size_t> following)
      : shards_(shards), following_(std::move(following)) {}
  void prefetch(int iteration) override { shards_.prefetch(group(iteration)); }
  void prefetch_following() override {
    for (const std::size_t index : following_) shards_.prefetch(index);
  }
  std::vector<Tensor> acquire(int iteration) override { return shards_.acquire(group(iteration)).parameters; }
  void release(int iteration) override { shards_.release(group(iteration)); }
  std::vector<GradientSlot*> gradient_slots(int iteration) override { return shards_.gradient_slots(group(iteration)); }
  void begin_gradients(int iteration) override { shards_.begin_gradients(group(iteration)); }
  void gradients_ready(int iteration) override {
    shards_.advance_reductions();
    shards_.reduce_gradients(group(iteration));
  }

 private:
  std::size_t group(int iteration) const { return shards_.layout().layer_group(iteration); }
  ParameterShards& shards_;
  std::vector<std::size_t> following_;
};

}  // namespace maxtext
