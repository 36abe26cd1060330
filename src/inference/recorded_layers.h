// The layers of a decode step. Every step runs the same functions on other values, and layers differ in nothing but
// their values: layers of one window with weights of equal shapes and dtypes are recorded and planned once, and each
// run binds the leaves anew. Recording and planning in each step took half of the time of a small model's step. One
// recording per layer was tried next: between two runs of a layer all weights pass through the caches, so its nodes
// came from memory each time, which cost half a millisecond of a step of 30 layers.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "attention/layer_attention.h"
#include "autodiff/graph.h"
#include "config/model_shape.h"
#include "inference/inference_weights.h"
#include "model/decoder_parts.h"
#include "model/family.h"

namespace maxtext {

class RecordedLayers {
 public:
  /// Attention of a layer: asked for when it is recorded. The layer being run changes, so what it works on then
  /// (arrays, a cache) it looks up in each run, by `layer`, which has to live as long as this.
  using MakeAttention = std::function<std::unique_ptr<LayerAttention>(const std::size_t& layer)>;

  /// Engine and weights have to outlive it. When a run throws, the recordings hold its values until the next run.
  RecordedLayers(Engine& engine, const ModelShape& shape, const InferenceWeights& weights, MakeAttention attention);
  RecordedLayers(const RecordedLayers&) = delete;  // what is recorded refers to current_
  RecordedLayers& operator=(const RecordedLayers&) = delete;

  /// The last layer's output for x [B, T, hidden_size], of one shape in all runs; `tables` of this run's positions.
  Tensor run(Tensor x, const LayerRopeTables& tables);

 private:
  struct Recording {
    std::unique_ptr<Graph> graph;
    Variable x;
    Variable rope_cos;
    Variable rope_sin;
    std::vector<Variable> parameters;
    ForwardPlan plan;
    std::int64_t window = 0;
  };
  Recording record(const Tensor& x, const LayerRopeTables& tables) const;
  /// The recording of the current layer, made where there is none.
  Recording& recording(const Tensor& x, const LayerRopeTables& tables);
  bool fits(const Recording& recording) const;
  Tensor run(Recording& recording, Tensor x, const LayerRopeTables& tables);

  Engine& engine_;
  ModelShape shape_;
  const ModelFamily& family_;
  const InferenceWeights& weights_;
  MakeAttention attention_;
  std::size_t current_ = 0;  // the layer that runs
  std::vector<Recording> recordings_;
  std::vector<std::size_t> of_layer_;  // recording of each layer that has run
};

}  // namespace maxtext
