// Hugging Face's config.json: read into a ModelShape and written from one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "config/model_shape.h"

namespace maxtext {

/// The shape that a config.json describes, in either of the forms in use: that of transformers 5 (`rope_parameters`,
/// `dtype`) and that of earlier ones, in which most published models are (`rope_theta`, `rope_scaling`,
/// `torch_dtype`). `path` is the file or its folder.
///
/// model_type llama, mistral, qwen2, qwen3, gemma2 and gemma3_text, and gemma3 (multimodal), of which it reads the text
/// model (model/hf_text_model.h); rope types default, linear, llama3 and yarn (model/hf_rope.h). What is absent has the
/// default of transformers: head_dim is hidden_size / num_attention_heads (qwen3: 128, gemma: 256), num_key_value_heads
/// is num_attention_heads (llama; gemma: 4; the others must give it), rms_norm_eps 1e-6, rope_theta 10000; gemma3 may
/// leave out every size.
/// Windows: mistral has `sliding_window` on every layer; qwen2 and qwen3 with `use_sliding_window` have it where
/// `layer_types` says sliding_attention, or, without that list, from layer `max_window_layers` on; gemma where
/// `layer_types` says so, or on all but every second (gemma2) or `sliding_window_pattern`-th (gemma3) layer.
/// `query_scale`, a key of our own, replaces 1/sqrt(head_dim) (gemma: 1/sqrt(query_pre_attn_scalar)): MaxText folds
/// that factor into the query weights.
///
/// Throws ConfigError, one line with file, key, value and what is allowed, for everything that this program would
/// compute differently: unknown families, other activations, biases on output or MLP projections, other rope types,
/// rotation of a part of the head, quantised weights, dimensions that do not fit together.
ModelShape read_hf_config(const std::filesystem::path& path);

/// The same from the file's text; `name` is what errors call it.
ModelShape parse_hf_config(const std::string& text, const std::string& name);

/// What a config.json says beside the shape.
struct HfConfigExtras {
  /// Type in which the weights are stored: float32, bfloat16 or float16.
  std::string dtype = "float32";
  std::optional<std::int64_t> bos_token_id;
  std::optional<std::int64_t> eos_token_id;
};

/// A config.json for `shape` that transformers loads, versions 4 and 5 alike (the earlier form), and from which
/// read_hf_config gives the same shape. A llama with one window on all layers is written as mistral, which is the same
/// computation under another name (and reads back with that family). A query_scale other than 1/sqrt(head_dim) is
/// written under that key, which transformers does not know: fold it into the query weights first if transformers shall
/// load the result. Throws ConfigError when Hugging Face has no family for the shape.
std::string write_hf_config(const ModelShape& shape, const HfConfigExtras& extras = {});

}  // namespace maxtext
