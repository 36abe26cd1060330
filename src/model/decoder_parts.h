// What a decoder has around its layers, over plain tensors: rotary tables, embedding, output logits. Training and
// generation share it.
#pragma once

#include <vector>

#include "config/model_shape.h"
#include "ops/engine.h"

namespace maxtext {

/// Inverse frequencies [head_dim/2] of a rotary embedding, scaled as its type says.
std::vector<double> inverse_frequencies(const RopeShape& rope, std::int64_t head_dim);

/// cos and sin [B, T, head_dim/2] of every layer: one pair of tables for all, or, with shape.local_rope, two.
class LayerRopeTables {
 public:
  /// position_ids int32 [B, T]; tables in `dtype`, float32 or float64.
  LayerRopeTables(Engine& engine, const ModelShape& shape, const Tensor& position_ids, DType dtype);

  const Tensor& cos(std::int64_t layer) const { return table(layer).cos; }
  const Tensor& sin(std::int64_t layer) const { return table(layer).sin; }

 private:
  struct Table {
    Tensor cos, sin;
  };
  const Table& table(std::int64_t layer) const { return tables_[of_layer_.at(static_cast<std::size_t>(layer))]; }

  std::vector<Table> tables_;
  std::vector<std::size_t> of_layer_;
};

/// The first row that this device has of embedding and head, which are cut over kTensorAxes: int32 [].
Tensor first_vocabulary_row(Engine& engine, const ModelShape& shape);

/// The input of the first layer, [B, T, hidden_size]: rows `ids` of `table`, of which each device has a part, times
/// shape.embedding_scale (rounded to the dtype first, as transformers does).
Tensor embed_tokens(Engine& engine, const ModelShape& shape, const Tensor& table, const Tensor& ids);

/// The RMSNorm before the head: x [..., hidden_size] -> the same shape.
Tensor final_norm(Engine& engine, const ModelShape& shape, const Tensor& x, const Tensor& weight);

/// Logits [..., vocab_size] of the final norm's output: hidden · weightᵀ, of which each device has some rows,
/// soft-capped where the shape says so.
Tensor output_logits(Engine& engine, const ModelShape& shape, const Tensor& hidden, const Tensor& weight);

}  // namespace maxtext
