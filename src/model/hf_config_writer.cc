#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/hf_config.h"
#include "model/hf_rope.h"

namespace maxtext {
namespace {

using nlohmann::ordered_json;

/// The one window that any layer has, or 0.
std::int64_t window_of(const ModelShape& shape) {
  std::int64_t window = 0;
  for (const std::int64_t layer : shape.layer_windows) {
    if (layer == 0) continue;
    if (window != 0 && layer != window) {
      fail_config("config.json: layers with windows of {} and {}: Hugging Face has one sliding_window per model",
                  window, layer);
    }
    window = layer;
  }
  return window;
}

bool on_every_layer(const ModelShape& shape, std::int64_t window) {
  return std::ranges::all_of(shape.layer_windows, [window](std::int64_t layer) { return layer == window; });
}

/// What Hugging Face has in Gemma only.
void refuse_foreign_features(const ModelShape& shape) {
  ModelShape usual = shape;
  set_family_constants(usual);
  if (usual != shape) {
    fail_config("config.json: activation, norms or embedding scale are not those of family {}", shape.family);
  }
  if (!is_gemma(shape) && (shape.attention_softcap != 0 || shape.final_softcap != 0)) {
    fail_config("config.json: soft caps with family {}: in Hugging Face only gemma2 and gemma3 have them",
                shape.family);
  }
  if (!shape.local_rope) return;
  if (shape.family != "gemma3" || shape.local_rope->type != RopeType::plain) {
    fail_config(
        "config.json: layers with a window have a {}rotary embedding of their own with family {}: in Hugging "
        "Face only gemma3 has one, unscaled",
        shape.local_rope->type == RopeType::plain ? "" : "scaled ", shape.family);
  }
}

/// Hugging Face's family that computes what `shape` says.
std::string family_of(const ModelShape& shape, std::int64_t window) {
  refuse_foreign_features(shape);
  const bool some_windows = shape.family == "qwen2" || shape.family == "qwen3" || is_gemma(shape);
  if (shape.attention_bias != (shape.family == "qwen2")) {
    fail_config(
        "config.json: attention_bias={} with family {}: in Hugging Face the models with biases on q, k and v are "
        "those of qwen2",
        shape.attention_bias, shape.family);
  }
  if (shape.qk_norm != (shape.family == "qwen3" || shape.family == "gemma3")) {
    fail_config(
        "config.json: qk_norm={} with family {}: in Hugging Face the models with norms on q and k are those of "
        "qwen3 and gemma3",
        shape.qk_norm, shape.family);
  }
  if (some_windows) return shape.family;
  if (!on_every_layer(shape, window)) {
    fail_config(
        "config.json: windows on some layers of family {}: only qwen2, qwen3, gemma2 and gemma3 have that in Hugging "
        "Face",
        shape.family);
  }
  return window > 0 ? "mistral" : shape.family;
}

const char* architecture_of(const std::string& family) {
  if (family == "llama") return "LlamaForCausalLM";
  if (family == "mistral") return "MistralForCausalLM";
  if (family == "qwen2") return "Qwen2ForCausalLM";
  if (family == "qwen3") return "Qwen3ForCausalLM";
  if (family == "gemma2") return "Gemma2ForCausalLM";
  if (family == "gemma3") return "Gemma3ForCausalLM";
  fail_config("config.json: family {}: expected llama, mistral, qwen2, qwen3, gemma2 or gemma3", family);
}

void write_layer_types(ordered_json& config, const ModelShape& shape) {
  ordered_json types = ordered_json::array();
  for (const std::int64_t layer : shape.layer_windows)
    types.push_back(layer > 0 ? "sliding_attention" : "full_attention");
  config["layer_types"] = types;
}

std::int64_t first_layer_where(const ModelShape& shape, bool window) {
  const auto first =
      std::ranges::find_if(shape.layer_windows, [window](std::int64_t layer) { return (layer > 0) == window; });
  return first - shape.layer_windows.begin();
}

void write_windows(ordered_json& config, const std::string& family, const ModelShape& shape, std::int64_t window) {
  if (family == "llama") return;
  config["sliding_window"] = window > 0 ? ordered_json(window) : ordered_json(nullptr);
  if (family == "mistral") return;
  config["use_sliding_window"] = window > 0;
  // transformers before 4.53 know no layer_types; they see the same when the windows are those of the last layers.
  config["max_window_layers"] = first_layer_where(shape, true);
  write_layer_types(config, shape);
}

/// Every n-th layer sees everything, or nothing where the layers have no such rule.
std::optional<std::int64_t> window_period(const ModelShape& shape) {
  const std::int64_t period = first_layer_where(shape, false) + 1;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const bool full = shape.layer_windows[static_cast<std::size_t>(layer)] == 0;
    if (full != ((layer + 1) % period == 0)) return std::nullopt;
  }
  return period;
}

bool is_default_query_scale(const ModelShape& shape) {
  return shape.query_scale == 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
}

/// n with query_scale = 1/sqrt(n), an integer where there is one (transformers means it to be); null where no number
/// gives exactly that scale.
ordered_json query_pre_attn_scalar(double query_scale) {
  const double scalar = 1 / (query_scale * query_scale);
  const auto nearest = std::llround(scalar);
  if (nearest > 0 && 1.0 / std::sqrt(static_cast<double>(nearest)) == query_scale) return nearest;
  return 1.0 / std::sqrt(scalar) == query_scale ? ordered_json(scalar) : ordered_json(nullptr);
}

ordered_json cap_or_null(double cap) { return cap > 0 ? ordered_json(cap) : ordered_json(nullptr); }

/// `window` stays as it is where no layer has one: transformers wants a number.
void write_gemma(ordered_json& config, const ModelShape& shape, std::int64_t window) {
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["attention_bias"] = false;
  config["attn_logit_softcapping"] = cap_or_null(shape.attention_softcap);
  config["final_logit_softcapping"] = cap_or_null(shape.final_softcap);
  const ordered_json scalar = query_pre_attn_scalar(shape.query_scale);
  config["query_pre_attn_scalar"] = scalar.is_null() ? ordered_json(shape.head_dim) : scalar;
  if (scalar.is_null()) config["query_scale"] = shape.query_scale;
  if (window > 0) config["sliding_window"] = window;
  write_layer_types(config, shape);
  if (shape.family != "gemma3") return;
  config["rope_local_base_freq"] = shape.local_rope ? shape.local_rope->theta : shape.rope.theta;
  // transformers before 4.53 know no layer_types.
  if (const auto period = window_period(shape)) config["sliding_window_pattern"] = *period;
}

}  // namespace

std::string write_hf_config(const ModelShape& shape, const HfConfigExtras& extras) {
  constexpr std::array<std::string_view, 3> kDtypes{"float32", "bfloat16", "float16"};
  if (std::ranges::find(kDtypes, extras.dtype) == kDtypes.end()) {
    fail_config("config.json: dtype {}: expected float32, bfloat16 or float16", extras.dtype);
  }
  const std::int64_t window = window_of(shape);
  const std::string family = family_of(shape, window);

  ordered_json config;
  config["architectures"] = {architecture_of(family)};
  config["model_type"] = family == "gemma3" ? "gemma3_text" : family;
  config["vocab_size"] = shape.vocab_size;
  config["hidden_size"] = shape.hidden_size;
  config["intermediate_size"] = shape.intermediate_size;
  config["num_hidden_layers"] = shape.layers;
  config["num_attention_heads"] = shape.query_heads;
  config["num_key_value_heads"] = shape.kv_heads;
  config["head_dim"] = shape.head_dim;
  if (!is_gemma(shape)) config["hidden_act"] = "silu";
  config["rms_norm_eps"] = shape.rms_norm_eps;
  config["rope_theta"] = shape.rope.theta;
  config["rope_scaling"] = hf_rope_scaling(shape.rope);
  config["max_position_embeddings"] = shape.max_position_embeddings;
  config["tie_word_embeddings"] = shape.tie_word_embeddings;
  if (family == "llama" || family == "qwen3") config["attention_bias"] = false;
  if (family == "llama") config["mlp_bias"] = false;
  if (is_gemma(shape)) {
    write_gemma(config, shape, window);
  } else {
    write_windows(config, family, shape, window);
    if (!is_default_query_scale(shape)) config["query_scale"] = shape.query_scale;
  }
  if (extras.bos_token_id) config["bos_token_id"] = *extras.bos_token_id;
  if (extras.eos_token_id) config["eos_token_id"] = *extras.eos_token_id;
  config["torch_dtype"] = extras.dtype;
  return config.dump(2) + "\n";
}

}  // namespace maxtext
