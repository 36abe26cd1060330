#include "inference/other_keys.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/shape_differences.h"
#include "ops/rope_frequencies.h"

namespace maxtext {
namespace {

/// A key whose value is a member of `Part`.
template <typename Part, typename Number>
struct Member {
  std::string_view key;
  Number Part::*member;
};

constexpr std::string_view kScale = "global_parameter_scale";

constexpr std::array kSizes = {
    Member<ModelShape, std::int64_t>{"base_emb_dim", &ModelShape::hidden_size},
    Member<ModelShape, std::int64_t>{"base_mlp_dim", &ModelShape::intermediate_size},
    Member<ModelShape, std::int64_t>{"base_num_decoder_layers", &ModelShape::layers},
    Member<ModelShape, std::int64_t>{"base_num_query_heads", &ModelShape::query_heads},
    Member<ModelShape, std::int64_t>{"base_num_kv_heads", &ModelShape::kv_heads},
};

/// Where the product is another than the model's, a scale is what makes it so, or else the key's own value.
bool size_agrees(const Config& config, std::string_view key, const ModelShape& found) {
  if (key == kScale) return config.integer(kScale) == 1;
  const auto size = std::ranges::find(kSizes, key, [](const auto& member) { return member.key; });
  return size != kSizes.end() && config.integer(key) == found.*(size->member);
}

bool family_agrees(const Config& config, std::string_view key, const ModelShape& found) {
  if (key == "mlp_activations") return config.list(key).front() == (is_gemma(found) ? "gelu" : "silu");
  // A qwen2 without biases is a llama; whether there are some, attention_bias says.
  const std::string& block = config.text("decoder_block");
  return found.family == "llama" ? block == "llama2" || block == "qwen2" : block == found.family;
}

/// sliding_window_size says how long a window is, the other two which layers have one.
bool windows_agree(const Config& config, std::string_view key, const ModelShape& found) {
  const std::vector<std::int64_t>& windows = found.layer_windows;
  if (key == "sliding_window_size") {
    return std::ranges::all_of(windows, [&](auto window) { return window == 0 || window == config.integer(key); });
  }
  std::vector<std::string> pattern = config.list("attention_layer_pattern");
  if (key == "attention_type" && !pattern.empty()) return true;
  if (pattern.empty()) pattern = {config.text("attention_type")};
  for (std::size_t layer = 0; layer < windows.size(); ++layer) {
    if ((pattern[layer % pattern.size()] == "local_sliding") != (windows[layer] > 0)) return false;
  }
  return true;
}

bool local_rope_agrees(const Config& config, const ModelShape& found) {
  const double theta = config.real("local_rope_max_timescale");
  RopeShape local = found.rope;
  if (theta != -1) {
    local = {};
    local.theta = theta;
  }
  const bool has_windows = std::ranges::any_of(found.layer_windows, [](std::int64_t window) { return window > 0; });
  return !has_windows || local == found.local_rope.value_or(found.rope);
}

std::string_view rope_type_of(const RopeShape& rope) {
  if (rope.type == RopeType::llama3) return "llama3.1";
  return rope.type == RopeType::yarn ? "yarn" : "default";
}

constexpr std::array kLlama3 = {
    Member<RopeShape, double>{"rope_low_freq_factor", &RopeShape::low_freq_factor},
    Member<RopeShape, double>{"rope_high_freq_factor", &RopeShape::high_freq_factor},
};
constexpr std::array kYarn = {
    Member<RopeShape, double>{"beta_fast", &RopeShape::beta_fast},
    Member<RopeShape, double>{"beta_slow", &RopeShape::beta_slow},
};

/// Keys of another type than the one found say nothing about it.
bool rope_agrees(const Config& config, std::string_view key, const RopeShape& found) {
  const bool llama3 = found.type == RopeType::llama3;
  const bool yarn = found.type == RopeType::yarn;
  if (key == "rope_type") return config.text(key) == rope_type_of(found);
  if (key == "rope_use_scale") return config.flag(key) || !llama3;
  if (key == "rope_linear_scaling_factor") {
    return config.real(key) == (found.type == RopeType::linear ? found.factor : 1.0);
  }
  if (key == "rope_scaling_factor") return !(llama3 || yarn) || config.real(key) == found.factor;
  if (key == "rope_original_max_position_embeddings") {
    return !(llama3 || yarn) || config.integer(key) == found.original_max_position_embeddings;
  }
  if (key == "rope_truncate") return !yarn || config.flag(key) == found.truncate;
  if (key == "rope_attention_scaling") {
    return !yarn || found.attention_factor == (config.flag(key) ? yarn_attention_factor(found.factor) : 1.0);
  }
  const auto agrees = [&](const auto& members) {
    const auto member = std::ranges::find(members, key, [](const auto& each) { return each.key; });
    return member == members.end() || config.real(key) == found.*(member->member);
  };
  return (!llama3 || agrees(kLlama3)) && (!yarn || agrees(kYarn));
}

/// Whether the key's own value fits a model that differs from what all keys together describe.
bool agrees(const Config& config, std::string_view key, const ModelShape& found) {
  const auto is = [&](std::initializer_list<std::string_view> keys) {
    return std::ranges::find(keys, key) != keys.end();
  };
  if (key == kScale || key.starts_with("base_")) return size_agrees(config, key, found);
  if (is({"decoder_block", "mlp_activations"})) return family_agrees(config, key, found);
  if (is({"sliding_window_size", "attention_type", "attention_layer_pattern"}))
    return windows_agree(config, key, found);
  if (key == "local_rope_max_timescale") return local_rope_agrees(config, found);
  if (key == "query_scale") {
    const double scale = config.real(key);
    return found.query_scale == (scale > 0 ? scale : 1.0 / std::sqrt(static_cast<double>(found.head_dim)));
  }
  if (key == "rope_max_timescale") return config.real(key) == found.rope.theta;
  if (key.starts_with("rope_") || key.starts_with("beta_")) return rope_agrees(config, key, found.rope);
  return false;  // of the others, each alone decides what differs
}

}  // namespace

void refuse_other_keys(const Config& config, const ModelShape& found) {
  for (const ShapeDifference& difference : shape_differences(found, model_shape(config))) {
    for (const std::string_view key : difference.keys) {
      if (!config.is_set(key) || agrees(config, key, found)) continue;
      fail_config("{}: its config.json gives {} {}, and decides; leave the key out", config.describe(key),
                  difference.name, difference.found);
    }
  }
}

}  // namespace maxtext
