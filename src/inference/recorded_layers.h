// The layers of a decode step. Every step runs the same functions on other values, so each layer is recorded and its
// forward pass planned once: recording and planning took half of the time of a small model's step. When a run throws,
// that layer holds its values until the next run.
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
  /// Attention of a layer: asked for once, when it is recorded. What it reads then (arrays, a cache) it reads anew in
  /// each run, so it has to live as long as this.
  using MakeAttention = std::function<std::unique_ptr<LayerAttention>(std::size_t layer)>;

  /// Engine and weights have to outlive it.
  RecordedLayers(Engine& engine, const ModelShape& shape, const InferenceWeights& weights, MakeAttention attention);

  /// The last layer's output for x [B, T, hidden_size], of one shape in all runs; `tables` of this run's positions.
  Tensor run(Tensor x, const LayerRopeTables& tables);

 private:
  struct Layer {
    std::unique_ptr<Graph> graph;
    Variable x;
    Variable rope_cos;
    Variable rope_sin;
    ForwardPlan plan;
  };
  Layer record(const Tensor& x, const LayerRopeTables& tables, std::size_t index) const;

  Engine& engine_;
  ModelShape shape_;
  const ModelFamily& family_;
  const InferenceWeights& weights_;
  MakeAttention attention_;
  std::vector<Layer> layers_;
};

}  // namespace maxtext
