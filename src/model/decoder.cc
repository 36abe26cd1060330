#include "model/decoder.h"

#include <algorithm>

#include "attention/all_gather_attention.h"
#include "autodiff/functions.h"
#include "base/error.h"
#include "model/blocks.h"
#include "model/decoder_parts.h"
#include "model/parallel_cross_entropy.h"
#include "model/tensor_parallel.h"

namespace maxtext {

Decoder::Decoder(Engine& engine, ModelShape shape, std::vector<std::size_t> layer_types, DecoderOptions options)
    : engine_(engine),
      shape_(std::move(shape)),
      part_(tensor_part(shape_, engine.mesh())),
      family_(model_family(shape_.family)),
      layer_types_(std::move(layer_types)),
      options_(std::move(options)) {
  if (layer_types_.size() != static_cast<std::size_t>(shape_.layers)) {
    fail("{} attention types were given for {} layers", layer_types_.size(), shape_.layers);
  }
}

int Decoder::layer_period() const {
  const auto layers = static_cast<int>(shape_.layers);
  const auto alike = [&](int a, int b) {
    return layer_types_[static_cast<std::size_t>(a)] == layer_types_[static_cast<std::size_t>(b)] &&
           &layer_rope(shape_, a) == &layer_rope(shape_, b);
  };
  for (int period = 1; period < layers; ++period) {
    bool repeats = true;
    for (int i = period; repeats && i < layers; ++i) repeats = alike(i, i - period);
    if (repeats) return period;
  }
  return std::max(layers, 1);
}

Repeat Decoder::layers(const DeviceBatch& batch) const {
  const LayerRopeTables tables(engine_, shape_, batch.position_ids, accumulation_dtype(options_.dtype));
  const auto body = [this, batch, tables](Graph& graph, Variable x, std::span<const Variable> parameters, int layer) {
    const DeviceBatch::Intervals& intervals = batch.intervals.at(layer_types_[static_cast<std::size_t>(layer)]);
    AllGatherAttention attention({.gathered_slots = graph.constant(batch.gathered_slots),
                                  .key_begin = graph.constant(intervals.key_begin),
                                  .key_end = graph.constant(intervals.key_end),
                                  .area = intervals.area});
    const LayerConstants constants{.rope_cos = graph.constant(tables.cos(layer)),
                                   .rope_sin = graph.constant(tables.sin(layer)),
                                   .attention = attention};
    return family_.layer(part_, x, parameters, constants);
  };
  return {engine_, static_cast<int>(shape_.layers), layer_period(), body};
}

Variable Decoder::embed(Variable table, const DeviceBatch& batch) const {
  Graph& graph = table.graph();
  const Variable ids = graph.constant(batch.input_ids);
  const bool cut = engine_.mesh().size(kTensorAxes) > 1;
  Variable rows =
      cut ? leave_tensor(embedding(table, ids, graph.constant(first_vocabulary_row(engine_, shape_))), "embedding")
          : embedding(table, ids);
  if (rows.spec().dtype != options_.dtype) rows = cast(rows, options_.dtype);
  return shape_.embedding_scale == 1 ? rows : scale(rows, shape_.embedding_scale);
}

std::vector<Tensor> Decoder::cross_entropy(const std::vector<Tensor>& inputs, bool with_gradient,
                                           bool accumulate) const {
  const LinearCrossEntropy loss{.chunk_tokens = options_.cross_entropy_chunk,
                                .z_loss_multiplier = options_.z_loss_multiplier,
                                .softcap = shape_.final_softcap,
                                .with_gradient = with_gradient,
                                .accumulate = accumulate};
  if (engine_.mesh().size(kTensorAxes) == 1) return engine_.apply(loss, inputs);
  return vocabulary_parallel_cross_entropy(engine_, loss, inputs, first_vocabulary_row(engine_, shape_));
}

std::pair<std::size_t, std::size_t> Decoder::head_weight(const ParameterShards& parameters) const {
  if (shape_.tie_word_embeddings) return {ModelLayout::kEmbedding, 0};
  return {parameters.layout().head_group(), 1};
}

LossParts Decoder::train(ParameterShards& parameters, const DeviceBatch& batch, const Tensor& inverse_denominator) {
  const std::size_t embedding_group = ModelLayout::kEmbedding;
  const std::size_t head_group = parameters.layout().head_group();
  const auto [weight_group, weight_index] = head_weight(parameters);

  // Embedding; the first layer's parameters travel with the table.
  LayerParameterSource source(parameters, {head_group, weight_group});
  parameters.prefetch(embedding_group);
  if (shape_.layers > 0) source.prefetch(0);
  Graph embedding_graph(engine_);
  const Variable table = embedding_graph.parameter(parameters.acquire(embedding_group).parameters[0],
                                                   parameters.gradient_slots(embedding_group)[0]);
  const Variable embedded = embed(table, batch);
  Tensor x = embedding_graph.forward({embedded}, &options_.remat)[0];
  embedding_graph.bind(table, Tensor());
  parameters.release(embedding_group);

  // Layers.
  Repeat repeat = layers(batch);
  x = repeat.forward(std::move(x), source, &options_.remat);

  // Head: the loss brings its own gradient, so that logits exist for one chunk of tokens at a time.
  LossParts parts;
  Tensor cotangent;
  {
    const GatheredGroup& head = parameters.acquire(head_group);
    parameters.begin_gradients(head_group);
    if (weight_group != head_group) {
      parameters.begin_gradients(weight_group);
    }
    Graph graph(engine_);
    const Variable input = graph.input(std::move(x));
    x = Tensor();
    const Variable norm = graph.parameter(head.parameters[0], parameters.gradient_slots(head_group)[0]);
    const Variable normed = enter_tensor(model_norm(shape_, input, norm), kTensorAxes);
    GradientSlot& slot = *parameters.gradient_slots(weight_group)[weight_index];
    std::vector<Tensor> outputs;
    {
      const Tensor hidden = graph.forward({normed}, &options_.remat)[0];
      outputs = cross_entropy({hidden, parameters.acquire(weight_group).parameters[weight_index], batch.targets,
                               batch.target_weights, inverse_denominator, slot.destination},
                              true, slot.accumulate);
    }
    slot.destination = outputs[3];
    slot.accumulate = true;
    parts = {.sums = outputs[0], .nll = outputs[1]};
    std::vector<Tensor> seeds = {std::move(outputs[2])};
    outputs.clear();
    cotangent = graph.backward({normed}, std::move(seeds), {input})[0];
  }
  parameters.release(head_group);
  parameters.release(weight_group);
  parameters.reduce_gradients(head_group);

  cotangent = repeat.backward(std::move(cotangent), source);

  parameters.begin_gradients(embedding_group);
  std::vector<Tensor> seeds = {std::move(cotangent)};
  embedding_graph.backward({embedded}, std::move(seeds), {});
  parameters.reduce_gradients(embedding_group);
  return parts;
}

Tensor Decoder::final_hidden(ParameterShards& parameters, const DeviceBatch& batch) const {
  parameters.prefetch(ModelLayout::kEmbedding);
  if (shape_.layers > 0) parameters.prefetch(parameters.layout().layer_group(0));
  Tensor x = embed_tokens(engine_, shape_, parameters.acquire(ModelLayout::kEmbedding).parameters[0], batch.input_ids);
  parameters.release(ModelLayout::kEmbedding);
  if (x.dtype() != options_.dtype) x = engine_.apply_one(Cast{.dtype = options_.dtype}, {x});
  LayerParameterSource source(parameters, {parameters.layout().head_group(), head_weight(parameters).first});
  x = layers(batch).forward(std::move(x), source, nullptr);
  const Tensor norm = parameters.acquire(parameters.layout().head_group()).parameters[0];
  return final_norm(engine_, shape_, x, norm);
}

LossParts Decoder::evaluate(ParameterShards& parameters, const DeviceBatch& batch) {
  const Tensor hidden = final_hidden(parameters, batch);
  const auto [group, index] = head_weight(parameters);
  const Tensor weight = parameters.acquire(group).parameters[index];
  const Tensor one = engine_.apply_one(Fill{.spec = {{}, DType::float32}, .value = 1}, {});
  const std::vector<Tensor> outputs =
      cross_entropy({hidden, weight, batch.targets, batch.target_weights, one}, false, false);
  parameters.release(group);
  parameters.release(parameters.layout().head_group());
  return {.sums = outputs[0], .nll = outputs[1]};
}

Tensor Decoder::logits(ParameterShards& parameters, const DeviceBatch& batch) {
  const Tensor hidden = final_hidden(parameters, batch);
  const auto [group, index] = head_weight(parameters);
  Tensor result = output_logits(engine_, shape_, hidden, parameters.acquire(group).parameters[index]);
  parameters.release(group);
  parameters.release(parameters.layout().head_group());
  return result;
}

}  // namespace maxtext
