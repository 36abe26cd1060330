#include "model/shape_differences.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/hf_rope.h"

namespace maxtext {
namespace {

using Keys = std::vector<std::string_view>;

using Differences = std::vector<ShapeDifference>;

template <typename T>
void compare(Differences& differences, std::string name, const T& found, const T& wanted, Keys keys) {
  if (found == wanted) return;
  differences.push_back(
      {std::move(name), fmt::format("{}", found), fmt::format("{}", wanted), std::move(keys), /*in_tensors=*/false});
}

Differences tensor_differences(const ModelShape& found, const ModelShape& wanted) {
  constexpr std::string_view kScale = "global_parameter_scale";
  Differences differences;
  const auto compare_member = [&](const char* name, auto member, Keys keys) {
    compare(differences, name, found.*member, wanted.*member, std::move(keys));
  };
  compare_member("vocab_size", &ModelShape::vocab_size, {"vocab_size"});
  compare_member("hidden_size", &ModelShape::hidden_size, {"base_emb_dim", kScale});
  compare_member("intermediate_size", &ModelShape::intermediate_size, {"base_mlp_dim", kScale});
  compare_member("num_hidden_layers", &ModelShape::layers, {"base_num_decoder_layers", kScale});
  compare_member("num_attention_heads", &ModelShape::query_heads, {"base_num_query_heads", kScale});
  compare_member("num_key_value_heads", &ModelShape::kv_heads, {"base_num_kv_heads", kScale});
  compare_member("head_dim", &ModelShape::head_dim, {"head_dim"});
  compare_member("tie_word_embeddings", &ModelShape::tie_word_embeddings, {"logits_via_embedding"});
  compare_member("attention_bias", &ModelShape::attention_bias, {"attention_bias"});
  compare_member("q_norm and k_norm", &ModelShape::qk_norm, {"use_qk_norm"});
  compare_member("post_feedforward_layernorm", &ModelShape::post_norms, {"use_post_ffw_norm", "use_post_attn_norm"});
  for (ShapeDifference& difference : differences) difference.in_tensors = true;
  return differences;
}

/// The whole embedding as text.
std::string rope_text(const std::optional<RopeShape>& rope) {
  return rope ? fmt::format("theta {}, scaling {}", rope->theta, hf_rope_scaling(*rope).dump()) : "that of the others";
}

void compare_ropes(const ModelShape& found, const ModelShape& wanted, Differences& differences) {
  compare(differences, "rope_theta", found.rope.theta, wanted.rope.theta, {"rope_max_timescale"});
  compare(differences, "the scaling of RoPE", hf_rope_scaling(found.rope).dump(), hf_rope_scaling(wanted.rope).dump(),
          {"rope_type", "rope_linear_scaling_factor", "rope_use_scale", "rope_scaling_factor", "rope_low_freq_factor",
           "rope_high_freq_factor", "rope_original_max_position_embeddings", "beta_fast", "beta_slow", "rope_truncate",
           "rope_attention_scaling"});
  compare(differences, "the rotary embedding of layers with a window", rope_text(found.local_rope),
          rope_text(wanted.local_rope), {"local_rope_max_timescale"});
}

/// Of the layers that both have: their number is a difference of its own.
void compare_windows(const ModelShape& found, const ModelShape& wanted, Differences& differences) {
  const std::size_t layers = std::min(found.layer_windows.size(), wanted.layer_windows.size());
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (found.layer_windows[layer] == wanted.layer_windows[layer]) continue;
    return compare(differences, fmt::format("sliding_window (layer {})", layer), found.layer_windows[layer],
                   wanted.layer_windows[layer], {"sliding_window_size", "attention_type", "attention_layer_pattern"});
  }
}

}  // namespace

std::vector<ShapeDifference> shape_differences(const ModelShape& found, const ModelShape& wanted) {
  Differences differences = tensor_differences(found, wanted);
  compare(differences, "model_type", found.family, wanted.family, {"decoder_block", "mlp_activations"});
  compare(differences, "rms_norm_eps", found.rms_norm_eps, wanted.rms_norm_eps, {"normalization_layer_epsilon"});
  compare(differences, "query_scale", found.query_scale, wanted.query_scale, {"query_scale"});
  compare(differences, "attn_logit_softcapping", found.attention_softcap, wanted.attention_softcap,
          {"attn_logits_soft_cap"});
  compare(differences, "final_logit_softcapping", found.final_softcap, wanted.final_softcap, {"final_logits_soft_cap"});
  compare_ropes(found, wanted, differences);
  compare_windows(found, wanted, differences);
  return differences;
}

}  // namespace maxtext
