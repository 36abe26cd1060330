#include "config/model_shape.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "config/config.h"

namespace maxtext {
namespace {

/// How `global_parameter_scale` = 2^n is dealt out: each doubling goes to heads and mlp, embedding, layers in turn
/// (MaxText's get_individual_scales).
struct Scales {
  std::int64_t heads = 1;
  std::int64_t embedding = 1;
  std::int64_t layers = 1;
};

Scales individual_scales(const Config& config) {
  const auto scale = static_cast<std::uint64_t>(config.integer("global_parameter_scale"));
  if (!std::has_single_bit(scale)) {
    fail_config("{}: expected a power of two", config.describe("global_parameter_scale"));
  }
  const int doublings = std::countr_zero(scale);
  const int rounds = doublings / 3;
  const int rest = doublings % 3;
  return {std::int64_t{1} << (rounds + (rest > 0)), std::int64_t{1} << (rounds + (rest > 1)),
          std::int64_t{1} << rounds};
}

/// MaxText's default leaves cos and sin as they are; Hugging Face's scales them by default (rope_attention_scaling).
void set_yarn(const Config& config, RopeShape& rope) {
  rope.type = RopeType::yarn;
  rope.factor = config.real("rope_scaling_factor");
  rope.original_max_position_embeddings = config.integer("rope_original_max_position_embeddings");
  rope.beta_fast = config.real("beta_fast");
  rope.beta_slow = config.real("beta_slow");
  rope.truncate = config.flag("rope_truncate");
  if (config.flag("rope_attention_scaling")) {
    rope.attention_factor = rope.factor <= 1 ? 1.0 : 0.1 * std::log(rope.factor) + 1.0;
  }
  if (rope.beta_fast <= rope.beta_slow) {
    fail_config("{}: expected a number above beta_slow={}", config.describe("beta_fast"), rope.beta_slow);
  }
}

RopeShape rope_shape(const Config& config) {
  RopeShape rope;
  rope.theta = config.real("rope_max_timescale");
  const double linear = config.real("rope_linear_scaling_factor");
  const std::string& type = config.text("rope_type");
  if (type == "default") {
    rope.type = linear == 1.0 ? RopeType::plain : RopeType::linear;
    rope.factor = linear;
    return rope;
  }
  if (linear != 1.0) {
    fail_config("{}: has no effect with rope_type={}; use rope_scaling_factor",
                config.describe("rope_linear_scaling_factor"), type);
  }
  if (type == "yarn") {
    set_yarn(config, rope);
    return rope;
  }
  if (!config.flag("rope_use_scale")) return rope;
  rope.type = RopeType::llama3;
  rope.factor = config.real("rope_scaling_factor");
  rope.low_freq_factor = config.real("rope_low_freq_factor");
  rope.high_freq_factor = config.real("rope_high_freq_factor");
  rope.original_max_position_embeddings = config.integer("rope_original_max_position_embeddings");
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    fail_config("{}: expected a number above rope_low_freq_factor={}", config.describe("rope_high_freq_factor"),
                rope.low_freq_factor);
  }
  return rope;
}

/// A window that no layer has would be dropped silently, and a local layer without one would see everything: both are
/// mistakes.
std::vector<std::int64_t> layer_windows(const Config& config, std::int64_t layers) {
  std::vector<std::string> pattern = config.list("attention_layer_pattern");
  if (pattern.empty()) pattern = {config.text("attention_type")};
  const std::int64_t window = config.integer("sliding_window_size");
  std::vector<std::int64_t> windows;
  bool has_window = false;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const bool local = pattern[static_cast<std::size_t>(layer) % pattern.size()] == "local_sliding";
    has_window = has_window || local;
    windows.push_back(local ? window : 0);
  }
  if (has_window && window == 0) {
    fail_config("{}: layers with local_sliding attention need at least 1", config.describe("sliding_window_size"));
  }
  if (!has_window && window > 0) {
    fail_config("{}: no layer has a window; set attention_type=local_sliding, or sliding_window_size=0",
                config.describe("sliding_window_size"));
  }
  return windows;
}

bool is_gemma(const std::string& family) { return family == "gemma2" || family == "gemma3"; }

/// The family decides the tensor names of checkpoints and what they are called in Hugging Face, so a block must have
/// exactly the parameters and functions that its family has.
void check_block(const Config& config) {
  const std::string& block = config.text("decoder_block");
  const auto must_be = [&](const char* key, bool expected) {
    if (config.flag(key) == expected) return;
    fail_config("{}: decoder_block={} needs {}={}", config.describe(key), block, key, expected);
  };
  must_be("use_qk_norm", block == "qwen3" || block == "gemma3");
  must_be("use_post_attn_norm", is_gemma(block));
  must_be("use_post_ffw_norm", is_gemma(block));
  const std::vector<std::string> activations = {is_gemma(block) ? "gelu" : "silu", "linear"};
  if (config.list("mlp_activations") != activations) {
    fail_config("{}: expected [{}, linear] with decoder_block={}", config.describe("mlp_activations"), activations[0],
                block);
  }
  if (config.flag("attention_bias") && block != "qwen2") {
    fail_config("{}: decoder_block={} has no biases; use decoder_block=qwen2", config.describe("attention_bias"),
                block);
  }
  for (const char* key : {"attn_logits_soft_cap", "final_logits_soft_cap"}) {
    if (config.real(key) == 0 || is_gemma(block)) continue;
    fail_config("{}: decoder_block={} has no soft caps; use decoder_block=gemma2 or gemma3", config.describe(key),
                block);
  }
  if (config.real("local_rope_max_timescale") != -1 && block != "gemma3") {
    fail_config("{}: decoder_block={} has one rotary embedding for all layers; use decoder_block=gemma3",
                config.describe("local_rope_max_timescale"), block);
  }
}

std::string family(const Config& config) {
  const std::string& block = config.text("decoder_block");
  const bool bias = config.flag("attention_bias");
  // Without biases qwen2 is Llama, also in what Hugging Face would call it.
  if (block == "llama2" || (block == "qwen2" && !bias)) return "llama";
  return block;
}

void check_dimensions(const Config& config, const ModelShape& shape) {
  if (shape.query_heads % shape.kv_heads != 0) {
    fail_config("{}: expected a multiple of base_num_kv_heads={}", config.describe("base_num_query_heads"),
                config.integer("base_num_kv_heads"));
  }
  if (shape.head_dim % 2 != 0) {
    fail_config("{}: expected an even number, the rotary embedding turns pairs", config.describe("head_dim"));
  }
}

/// The plain embedding of layers with a window; nothing where it is that of the others, or no layer has a window.
std::optional<RopeShape> local_rope(const Config& config, const ModelShape& shape) {
  const double theta = config.real("local_rope_max_timescale");
  if (theta == -1) return std::nullopt;
  RopeShape rope;
  rope.theta = theta;
  const bool has_windows = std::ranges::any_of(shape.layer_windows, [](std::int64_t window) { return window > 0; });
  return has_windows && rope != shape.rope ? std::optional(rope) : std::nullopt;
}

}  // namespace

bool is_gemma(const ModelShape& shape) { return is_gemma(shape.family); }

void set_family_constants(ModelShape& shape) {
  const bool gemma = is_gemma(shape);
  shape.activation = gemma ? MlpActivation::gelu_tanh : MlpActivation::silu;
  shape.norm_weight_offset = gemma ? 1.0 : 0.0;
  shape.post_norms = gemma;
  shape.embedding_scale = gemma ? std::sqrt(static_cast<double>(shape.hidden_size)) : 1.0;
}

const RopeShape& layer_rope(const ModelShape& shape, std::int64_t layer) {
  const bool local = shape.layer_windows.at(static_cast<std::size_t>(layer)) > 0;
  return local && shape.local_rope ? *shape.local_rope : shape.rope;
}

ModelShape model_shape(const Config& config) {
  check_block(config);
  const Scales scales = individual_scales(config);
  ModelShape shape;
  shape.family = family(config);
  shape.vocab_size = config.integer("vocab_size");
  shape.hidden_size = config.integer("base_emb_dim") * scales.embedding;
  shape.intermediate_size = config.integer("base_mlp_dim") * scales.heads;
  shape.layers = config.integer("base_num_decoder_layers") * scales.layers;
  shape.query_heads = config.integer("base_num_query_heads") * scales.heads;
  shape.kv_heads = config.integer("base_num_kv_heads") * scales.heads;
  shape.head_dim = config.integer("head_dim");
  shape.rms_norm_eps = config.real("normalization_layer_epsilon");
  shape.rope = rope_shape(config);
  shape.tie_word_embeddings = config.flag("logits_via_embedding");
  shape.attention_bias = config.flag("attention_bias");
  shape.qk_norm = config.flag("use_qk_norm");
  shape.layer_windows = layer_windows(config, shape.layers);
  shape.local_rope = local_rope(config, shape);
  shape.attention_softcap = config.real("attn_logits_soft_cap");
  shape.final_softcap = config.real("final_logits_soft_cap");
  set_family_constants(shape);
  const double scale = config.real("query_scale");
  shape.query_scale = scale > 0 ? scale : 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
  shape.max_position_embeddings = config.integer("max_target_length");
  check_dimensions(config, shape);
  return shape;
}

std::int64_t parameter_count(const ModelShape& shape) {
  const std::int64_t query_width = shape.query_heads * shape.head_dim;
  const std::int64_t kv_width = shape.kv_heads * shape.head_dim;
  const std::int64_t embedding = shape.vocab_size * shape.hidden_size;
  std::int64_t layer = (shape.post_norms ? 4 : 2) * shape.hidden_size;  // norms before and after attention and MLP
  layer += shape.hidden_size * (2 * query_width + 2 * kv_width);        // q, o, k, v
  layer += 3 * shape.hidden_size * shape.intermediate_size;             // gate, up, down
  if (shape.attention_bias) layer += query_width + 2 * kv_width;
  if (shape.qk_norm) layer += 2 * shape.head_dim;
  return embedding * (shape.tie_word_embeddings ? 1 : 2) + shape.hidden_size + layer * shape.layers;
}

}  // namespace maxtext
