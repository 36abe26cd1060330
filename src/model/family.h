// A model family is one file: which parameters a layer has, under which Hugging Face names, and what a layer computes.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "attention/layer_attention.h"
#include "config/model_shape.h"
#include "model/parameters.h"

namespace maxtext {

/// Constants of a batch that every layer may use.
struct LayerConstants {
  Variable rope_cos;  ///< [B, T, head_dim/2]
  Variable rope_sin;
  LayerAttention& attention;  ///< of this layer
};

struct ModelFamily {
  /// As ModelShape::family.
  std::string_view name;
  /// The parameters of one layer, names relative to `model.layers.N.`.
  std::vector<ParameterInfo> (*layer_parameters)(const ModelShape& shape);
  /// x [B, T, hidden_size] -> [B, T, hidden_size]; parameters in the order of layer_parameters.
  Variable (*layer)(const ModelShape& shape, Variable x, std::span<const Variable> parameters,
                    const LayerConstants& constants);
};

/// Throws ConfigError that lists the families.
const ModelFamily& model_family(std::string_view name);

// The families, one file each.
extern const ModelFamily kLlama;
extern const ModelFamily kMistral;
extern const ModelFamily kQwen2;
extern const ModelFamily kQwen3;
extern const ModelFamily kGemma2;
extern const ModelFamily kGemma3;

}  // namespace maxtext
