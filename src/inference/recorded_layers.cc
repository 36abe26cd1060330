#include "inference/recorded_layers.h"

#include <algorithm>
#include <utility>

namespace maxtext {

RecordedLayers::RecordedLayers(Engine& engine, const ModelShape& shape, const InferenceWeights& weights,
                               MakeAttention attention)
    : engine_(engine),
      shape_(shape),
      family_(model_family(shape.family)),
      weights_(weights),
      attention_(std::move(attention)) {}

RecordedLayers::Recording RecordedLayers::record(const Tensor& x, const LayerRopeTables& tables) const {
  const auto number = static_cast<std::int64_t>(current_);
  Recording recording;
  recording.graph = std::make_unique<Graph>(engine_);
  Graph& graph = *recording.graph;
  recording.x = graph.constant(x);
  recording.rope_cos = graph.constant(tables.cos(number));
  recording.rope_sin = graph.constant(tables.sin(number));
  for (const Tensor& parameter : weights_.group(current_ + 1))
    recording.parameters.push_back(graph.constant(parameter));
  const std::unique_ptr<LayerAttention> attention = attention_(current_);
  const LayerConstants constants{
      .rope_cos = recording.rope_cos, .rope_sin = recording.rope_sin, .attention = *attention};
  recording.plan = graph.plan_forward({family_.layer(shape_, recording.x, recording.parameters, constants)}, nullptr);
  recording.window = shape_.layer_windows[current_];
  return recording;
}

bool RecordedLayers::fits(const Recording& recording) const {
  return recording.window == shape_.layer_windows[current_] &&
         std::ranges::equal(
             recording.parameters, weights_.group(current_ + 1), {}, [](const Variable& leaf) { return leaf.spec(); },
             [](const Tensor& parameter) { return parameter.spec(); });
}

RecordedLayers::Recording& RecordedLayers::recording(const Tensor& x, const LayerRopeTables& tables) {
  if (current_ == of_layer_.size()) {
    const auto known = std::ranges::find_if(recordings_, [this](const Recording& one) { return fits(one); });
    const auto index = static_cast<std::size_t>(known - recordings_.begin());
    if (known == recordings_.end()) recordings_.push_back(record(x, tables));
    of_layer_.push_back(index);
  }
  return recordings_[of_layer_[current_]];
}

Tensor RecordedLayers::run(Recording& recording, Tensor x, const LayerRopeTables& tables) {
  Graph& graph = *recording.graph;
  graph.bind(recording.x, std::move(x));
  graph.bind(recording.rope_cos, tables.cos(static_cast<std::int64_t>(current_)));
  graph.bind(recording.rope_sin, tables.sin(static_cast<std::int64_t>(current_)));
  const std::vector<Tensor>& parameters = weights_.group(current_ + 1);
  for (std::size_t i = 0; i < parameters.size(); ++i) graph.bind(recording.parameters[i], parameters[i]);
  Tensor result = graph.forward(recording.plan)[0];
  for (const Variable& leaf : {recording.x, recording.rope_cos, recording.rope_sin}) graph.bind(leaf, Tensor());
  return result;
}

Tensor RecordedLayers::run(Tensor x, const LayerRopeTables& tables) {
  for (current_ = 0; current_ < static_cast<std::size_t>(shape_.layers); ++current_) {
    Recording& layer = recording(x, tables);
    x = run(layer, std::move(x), tables);
  }
  return x;
}

}  // namespace maxtext
