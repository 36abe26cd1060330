#include "inference/recorded_layers.h"

#include <utility>

namespace maxtext {

RecordedLayers::RecordedLayers(Engine& engine, const ModelShape& shape, const InferenceWeights& weights,
                               MakeAttention attention)
    : engine_(engine),
      shape_(shape),
      family_(model_family(shape.family)),
      weights_(weights),
      attention_(std::move(attention)) {}

RecordedLayers::Layer RecordedLayers::record(const Tensor& x, const LayerRopeTables& tables, std::size_t index) const {
  const auto number = static_cast<std::int64_t>(index);
  Layer layer;
  layer.graph = std::make_unique<Graph>(engine_);
  Graph& graph = *layer.graph;
  layer.x = graph.constant(x);
  layer.rope_cos = graph.constant(tables.cos(number));
  layer.rope_sin = graph.constant(tables.sin(number));
  std::vector<Variable> parameters;
  for (const Tensor& parameter : weights_.group(index + 1)) parameters.push_back(graph.constant(parameter));
  const std::unique_ptr<LayerAttention> attention = attention_(index);
  const LayerConstants constants{.rope_cos = layer.rope_cos, .rope_sin = layer.rope_sin, .attention = *attention};
  layer.plan = graph.plan_forward({family_.layer(shape_, layer.x, parameters, constants)}, nullptr);
  return layer;
}

Tensor RecordedLayers::run(Tensor x, const LayerRopeTables& tables) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape_.layers); ++i) {
    if (i == layers_.size()) layers_.push_back(record(x, tables, i));
    Layer& layer = layers_[i];
    layer.graph->bind(layer.x, std::move(x));
    layer.graph->bind(layer.rope_cos, tables.cos(static_cast<std::int64_t>(i)));
    layer.graph->bind(layer.rope_sin, tables.sin(static_cast<std::int64_t>(i)));
    x = layer.graph->forward(layer.plan)[0];
    for (const Variable& leaf : {layer.x, layer.rope_cos, layer.rope_sin}) layer.graph->bind(leaf, Tensor());
  }
  return x;
}

}  // namespace maxtext
