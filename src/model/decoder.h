// The decoder-only transformer as the program of one device: embedding, repeated layers, final norm, fused head and
// loss; and its backward pass.
#pragma once

#include <cstdint>
#include <vector>

#include "config/model_shape.h"
#include "model/family.h"
#include "model/parameter_shards.h"

namespace maxtext {

/// One micro-batch on one device, as the context plan laid it out: B rows of T slots.
struct DeviceBatch {
  Tensor input_ids;       ///< int32 [B, T]
  Tensor position_ids;    ///< int32 [B, T]
  Tensor targets;         ///< int32 [B, T], already shifted
  Tensor target_weights;  ///< float32 [B, T]
  Tensor gathered_slots;  ///< int32 [B, cp·T]
  /// Per attention type of the plan.
  struct Intervals {
    Tensor key_begin;  ///< int32 [B, T]
    Tensor key_end;    ///< int32 [B, T]
    double area = 0;   ///< visible pairs of one head on this device, all rows
  };
  std::vector<Intervals> intervals;
};

/// What one micro-batch adds to the loss: local to the device, to be summed over data, fsdp and context.
struct LossParts {
  Tensor sums;  ///< float64 [2]: Σ weight·nll, Σ weight·z
  Tensor nll;   ///< float32 [B, T]
};

struct DecoderOptions {
  RematPolicy remat;
  double z_loss_multiplier = 0;
  std::int64_t cross_entropy_chunk = 1024;
  /// Of activations and gathered parameters: float32; bfloat16, on engines that multiply it; float64 for tests by
  /// finite differences. Sums, rotary tables, gradients of parameters and the loss are accumulation_dtype.
  DType dtype = DType::float32;
};

class Decoder {
 public:
  /// `layer_types[i]` is the index of layer i's attention type in DeviceBatch::intervals.
  Decoder(Engine& engine, ModelShape shape, std::vector<std::size_t> layer_types, DecoderOptions options);

  const ModelShape& shape() const { return shape_; }

  /// Forward and backward of one micro-batch: adds the gradient of
  /// (Σ weight·(nll + z)) · inverse_denominator to the shards' gradients. inverse_denominator is float32 []: one over
  /// the sum of target weights of all devices and micro-batches.
  LossParts train(ParameterShards& parameters, const DeviceBatch& batch, const Tensor& inverse_denominator);

  /// Forward only.
  LossParts evaluate(ParameterShards& parameters, const DeviceBatch& batch);

  /// Forward only: logits [B, T, vocab_size]; for tests and logit checks, since it materialises them.
  Tensor logits(ParameterShards& parameters, const DeviceBatch& batch);

 private:
  Repeat layers(const DeviceBatch& batch) const;
  /// The least number of layers after which attention types and rotary embeddings repeat.
  int layer_period() const;
  /// The input of the first layer.
  Variable embed(Variable table, const DeviceBatch& batch) const;
  /// LinearCrossEntropy with the inputs it has, whether the vocabulary is cut or not.
  std::vector<Tensor> cross_entropy(const std::vector<Tensor>& inputs, bool with_gradient, bool accumulate) const;
  /// The final norm's output of a forward pass that keeps nothing.
  Tensor final_hidden(ParameterShards& parameters, const DeviceBatch& batch) const;
  /// The group and index of the output projection: the embedding's where they are tied.
  std::pair<std::size_t, std::size_t> head_weight(const ParameterShards& parameters) const;

  Engine& engine_;
  ModelShape shape_;
  ModelShape part_;  ///< of a layer, on this device
  const ModelFamily& family_;
  std::vector<std::size_t> layer_types_;
  DecoderOptions options_;
};

}  // namespace maxtext
