// The rotary embeddings of a config.json, in both forms, read and written.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "config/model_shape.h"
#include "model/hf_section.h"

namespace maxtext {

struct HfRopes {
  RopeShape rope;
  /// Of layers with a window, for families that have their own (Gemma 3).
  std::optional<RopeShape> local;
};

/// `rope_parameters` (transformers 5), or `rope_theta` with `rope_scaling` (before it); with `per_layer_type` also
/// rope_parameters by layer type, or rope_local_base_freq. `default_theta` is the family's. Throws ConfigError naming
/// the type for others than default, linear, llama3 and yarn.
///
/// yarn as transformers 5 reads it: `factor` is what it says (some 4.x replaced it by max_position_embeddings /
/// original_max_position_embeddings), attention_factor is 0.1·ln(factor) + 1 unless it is given, or the ratio of that
/// with mscale and with mscale_all_dim.
HfRopes read_hf_rope(const HfSection& root, double default_theta, bool per_layer_type);

/// The value of `rope_scaling` (null for plain).
nlohmann::ordered_json hf_rope_scaling(const RopeShape& rope);

}  // namespace maxtext
