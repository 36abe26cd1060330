#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/hf_config.h"

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

/// Hugging Face's family that computes what `shape` says.
std::string family_of(const ModelShape& shape, std::int64_t window) {
  const bool qwen = shape.family == "qwen2" || shape.family == "qwen3";
  if (shape.attention_bias != (shape.family == "qwen2")) {
    fail_config(
        "config.json: attention_bias={} with family {}: in Hugging Face the models with biases on q, k and v are "
        "those of qwen2",
        shape.attention_bias, shape.family);
  }
  if (shape.qk_norm != (shape.family == "qwen3")) {
    fail_config(
        "config.json: qk_norm={} with family {}: in Hugging Face the models with norms on q and k are those of "
        "qwen3",
        shape.qk_norm, shape.family);
  }
  if (qwen) return shape.family;
  if (!on_every_layer(shape, window)) {
    fail_config("config.json: windows on some layers of family {}: only qwen2 and qwen3 have that in Hugging Face",
                shape.family);
  }
  return window > 0 ? "mistral" : shape.family;
}

const char* architecture_of(const std::string& family) {
  if (family == "llama") return "LlamaForCausalLM";
  if (family == "mistral") return "MistralForCausalLM";
  if (family == "qwen2") return "Qwen2ForCausalLM";
  if (family == "qwen3") return "Qwen3ForCausalLM";
  fail_config("config.json: family {}: expected llama, mistral, qwen2 or qwen3", family);
}

ordered_json rope_scaling_of(const RopeShape& rope) {
  switch (rope.type) {
    case RopeType::plain:
      return nullptr;
    case RopeType::linear:
      return {{"rope_type", "linear"}, {"factor", rope.factor}};
    case RopeType::llama3:
      return {{"rope_type", "llama3"},
              {"factor", rope.factor},
              {"low_freq_factor", rope.low_freq_factor},
              {"high_freq_factor", rope.high_freq_factor},
              {"original_max_position_embeddings", rope.original_max_position_embeddings}};
  }
  fail("config.json: unknown rope type");
}

void write_windows(ordered_json& config, const std::string& family, const ModelShape& shape, std::int64_t window) {
  if (family == "llama") return;
  config["sliding_window"] = window > 0 ? ordered_json(window) : ordered_json(nullptr);
  if (family == "mistral") return;
  config["use_sliding_window"] = window > 0;
  // transformers before 4.53 know no layer_types; they see the same when the windows are those of the last layers.
  const auto first = std::ranges::find_if(shape.layer_windows, [](std::int64_t layer) { return layer > 0; });
  config["max_window_layers"] = first - shape.layer_windows.begin();
  ordered_json types = ordered_json::array();
  for (const std::int64_t layer : shape.layer_windows)
    types.push_back(layer > 0 ? "sliding_attention" : "full_attention");
  config["layer_types"] = types;
}

bool is_default_query_scale(const ModelShape& shape) {
  return shape.query_scale == 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
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
  config["model_type"] = family;
  config["vocab_size"] = shape.vocab_size;
  config["hidden_size"] = shape.hidden_size;
  config["intermediate_size"] = shape.intermediate_size;
  config["num_hidden_layers"] = shape.layers;
  config["num_attention_heads"] = shape.query_heads;
  config["num_key_value_heads"] = shape.kv_heads;
  config["head_dim"] = shape.head_dim;
  config["hidden_act"] = "silu";
  config["rms_norm_eps"] = shape.rms_norm_eps;
  config["rope_theta"] = shape.rope.theta;
  config["rope_scaling"] = rope_scaling_of(shape.rope);
  config["max_position_embeddings"] = shape.max_position_embeddings;
  config["tie_word_embeddings"] = shape.tie_word_embeddings;
  if (family == "llama" || family == "qwen3") config["attention_bias"] = false;
  if (family == "llama") config["mlp_bias"] = false;
  write_windows(config, family, shape, window);
  if (!is_default_query_scale(shape)) config["query_scale"] = shape.query_scale;
  if (extras.bos_token_id) config["bos_token_id"] = *extras.bos_token_id;
  if (extras.eos_token_id) config["eos_token_id"] = *extras.eos_token_id;
  config["torch_dtype"] = extras.dtype;
  return config.dump(2) + "\n";
}

}  // namespace maxtext
