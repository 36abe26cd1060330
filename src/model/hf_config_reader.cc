#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/json_text.h"
#include "model/hf_config.h"
#include "model/hf_rope.h"
#include "model/hf_section.h"
#include "model/hf_text_model.h"

namespace maxtext {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Hugging Face's model_type and what the family is called here.
struct Family {
  std::string_view model_type;
  std::string_view name;
};
constexpr std::array kFamilies{Family{"llama", "llama"},       Family{"mistral", "mistral"}, Family{"qwen2", "qwen2"},
                               Family{"qwen3", "qwen3"},       Family{"gemma2", "gemma2"},   Family{"gemma3", "gemma3"},
                               Family{"gemma3_text", "gemma3"}};

std::string read_family(const HfSection& root) {
  const std::optional<std::string> family = root.text("model_type");
  if (!family) fail_config("{}: model_type is missing; is this a config.json of Hugging Face?", root.name());
  std::string known;
  for (const Family& entry : kFamilies) {
    if (*family == entry.model_type) return std::string(entry.name);
    known += (known.empty() ? "" : ", ") + std::string(entry.model_type);
  }
  fail_config("{}: model_type={}: unknown model family; known are {}", root.name(), *family, known);
}

/// Features that would change the result if they were passed over.
void refuse_what_would_be_ignored(const HfSection& root, const std::string& family) {
  const bool gemma = family.starts_with("gemma");
  // Gemma's own key is hidden_activation; hidden_act, which older files have beside it, is then ignored.
  const char* activation_key = gemma ? "hidden_activation" : "hidden_act";
  const std::string expected = gemma ? "gelu_pytorch_tanh" : "silu";
  if (root.text(activation_key).value_or(expected) != expected) root.reject(activation_key, expected);
  if (root.find("use_bidirectional_attention") && root.flag("use_bidirectional_attention", false)) {
    root.reject("use_bidirectional_attention", "false, attention is causal");
  }
  if (root.flag("mlp_bias", false)) root.reject("mlp_bias", "false, biases on the MLP are not supported");
  if (root.flag("attention_bias", false) && family != "qwen2" && family != "mistral") {
    root.reject("attention_bias", "false, a bias on the output projection is not supported");
  }
  if (root.find("quantization_config"))
    fail_config("{}: quantization_config: quantised weights are not supported", root.name());
  if (const auto part = root.positive("partial_rotary_factor"); part && *part != 1.0) {
    root.reject("partial_rotary_factor", "1, the whole head is rotated");
  }
}

/// What transformers takes where a Gemma's config.json says nothing: files of Gemma 3 leave out most of it.
struct GemmaDefaults {
  std::int64_t vocab_size, max_position_embeddings, sliding_window_pattern;
  double theta, attention_softcap, final_softcap;
};
constexpr GemmaDefaults kGemma2Defaults{256000, 8192, 2, 1e4, 50, 30};
constexpr GemmaDefaults kGemma3Defaults{262208, 131072, 6, 1e6, 0, 0};
constexpr std::int64_t kGemmaHiddenSize = 2304;
constexpr std::int64_t kGemmaIntermediateSize = 9216;
constexpr std::int64_t kGemmaLayers = 26;
constexpr std::int64_t kGemmaHeads = 8;
constexpr std::int64_t kGemmaKvHeads = 4;
constexpr std::int64_t kGemmaHeadDim = 256;
constexpr std::int64_t kGemmaWindow = 4096;
constexpr double kGemmaQueryScalar = 256;
/// As many as base_num_decoder_layers takes: a list of them is made.
constexpr std::int64_t kMostLayers = 65536;

const GemmaDefaults& gemma_defaults(const std::string& family) {
  return family == "gemma2" ? kGemma2Defaults : kGemma3Defaults;
}

/// null is no cap; a cap that is absent is the default one.
double read_softcap(const HfSection& root, const char* key, double otherwise) {
  if (root.is_null(key)) return 0;
  return root.positive(key).value_or(otherwise);
}

std::vector<std::int64_t> windows_of_layer_types(const HfSection& root, std::int64_t layers, std::int64_t window) {
  const json& types = *root.find("layer_types");
  if (!types.is_array() || std::ssize(types) != layers) {
    root.reject("layer_types", fmt::format("a list of {} entries, as num_hidden_layers", layers));
  }
  std::vector<std::int64_t> windows;
  for (const json& type : types) {
    const bool sliding = type == "sliding_attention";
    if (!sliding && type != "full_attention") root.reject("layer_types", "full_attention and sliding_attention");
    if (sliding && window == 0) {
      root.reject("layer_types", "full_attention only, as use_sliding_window and sliding_window give no window");
    }
    windows.push_back(sliding ? window : 0);
  }
  return windows;
}

/// Without layer_types every sliding_window_pattern-th layer sees everything.
std::vector<std::int64_t> read_gemma_windows(const HfSection& root, const std::string& family, std::int64_t layers) {
  const std::int64_t window = root.size("sliding_window").value_or(kGemmaWindow);
  if (root.find("layer_types")) return windows_of_layer_types(root, layers, window);
  std::int64_t period = gemma_defaults(family).sliding_window_pattern;
  if (family == "gemma3") {
    // transformers 5 writes it with an underscore.
    for (const char* key : {"_sliding_window_pattern", "sliding_window_pattern"}) {
      period = root.size(key).value_or(period);
    }
  }
  std::vector<std::int64_t> windows;
  for (std::int64_t layer = 1; layer <= layers; ++layer) windows.push_back(layer % period == 0 ? 0 : window);
  return windows;
}

std::vector<std::int64_t> read_windows(const HfSection& root, const std::string& family, std::int64_t layers) {
  std::vector<std::int64_t> windows(static_cast<std::size_t>(layers), 0);
  if (family == "llama") return windows;
  if (family.starts_with("gemma")) return read_gemma_windows(root, family, layers);
  const std::int64_t window = root.size("sliding_window").value_or(0);
  if (family == "mistral") return std::vector<std::int64_t>(static_cast<std::size_t>(layers), window);

  const bool used = root.flag("use_sliding_window", false);
  if (root.find("layer_types")) return windows_of_layer_types(root, layers, used ? window : 0);
  if (!used || window == 0) return windows;
  const json* first = root.find("max_window_layers");
  if (!first || !first->is_number_unsigned()) {
    fail_config(
        "{}: max_window_layers: expected the first layer with a window, as use_sliding_window=true without layer_types",
        root.name());
  }
  for (auto layer = first->get<std::uint64_t>(); layer < windows.size(); ++layer) windows[layer] = window;
  return windows;
}

std::int64_t default_head_dim(const HfSection& root, const ModelShape& shape) {
  constexpr std::int64_t kQwen3HeadDim = 128;
  if (shape.family == "qwen3") return kQwen3HeadDim;
  if (is_gemma(shape)) return kGemmaHeadDim;
  if (shape.hidden_size % shape.query_heads != 0) {
    root.reject("hidden_size",
                fmt::format("a multiple of num_attention_heads={}, as head_dim is not given", shape.query_heads));
  }
  return shape.hidden_size / shape.query_heads;
}

void read_sizes(const HfSection& root, ModelShape& shape) {
  const auto size = [&](const char* key, std::int64_t gemmas) {
    return is_gemma(shape) ? root.size(key).value_or(gemmas) : root.required_size(key);
  };
  shape.vocab_size = size("vocab_size", gemma_defaults(shape.family).vocab_size);
  shape.hidden_size = size("hidden_size", kGemmaHiddenSize);
  shape.intermediate_size = size("intermediate_size", kGemmaIntermediateSize);
  shape.layers = size("num_hidden_layers", kGemmaLayers);
  if (shape.layers > kMostLayers) root.reject("num_hidden_layers", fmt::format("at most {}", kMostLayers));
  shape.query_heads = size("num_attention_heads", kGemmaHeads);
  shape.kv_heads = shape.family == "llama" ? root.size("num_key_value_heads").value_or(shape.query_heads)
                                           : size("num_key_value_heads", kGemmaKvHeads);
}

double read_query_scale(const HfSection& root, const ModelShape& shape) {
  if (const auto scale = root.positive("query_scale")) return *scale;
  if (!is_gemma(shape)) return 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
  return 1.0 / std::sqrt(root.positive("query_pre_attn_scalar").value_or(kGemmaQueryScalar));
}

void check_heads(const HfSection& root, ModelShape& shape) {
  if (shape.query_heads % shape.kv_heads != 0) {
    root.reject("num_attention_heads", fmt::format("a multiple of num_key_value_heads={}", shape.kv_heads));
  }
  const std::optional<std::int64_t> head_dim = root.size("head_dim");
  shape.head_dim = head_dim ? *head_dim : default_head_dim(root, shape);
  if (shape.head_dim % 2 != 0) {
    fail_config("{}: head_dim={}: expected an even number, the rotary embedding turns pairs", root.name(),
                shape.head_dim);
  }
  shape.query_scale = read_query_scale(root, shape);
}

std::int64_t default_max_position_embeddings(const std::string& family) {
  if (family.starts_with("gemma")) return gemma_defaults(family).max_position_embeddings;
  if (family == "llama") return 2048;
  return family == "mistral" ? 131072 : 32768;
}

void read_ropes(const HfSection& root, ModelShape& shape) {
  const double default_theta = is_gemma(shape) ? gemma_defaults(shape.family).theta : 10000;
  const HfRopes ropes = read_hf_rope(root, default_theta, shape.family == "gemma3");
  shape.rope = ropes.rope;
  const bool has_windows = std::ranges::any_of(shape.layer_windows, [](std::int64_t window) { return window > 0; });
  if (has_windows && ropes.local && *ropes.local != ropes.rope) shape.local_rope = ropes.local;
}

ModelShape read_shape(const HfSection& root) {
  ModelShape shape;
  shape.family = read_family(root);
  refuse_what_would_be_ignored(root, shape.family);
  read_sizes(root, shape);
  check_heads(root, shape);
  shape.rms_norm_eps = root.positive("rms_norm_eps").value_or(1e-6);
  shape.tie_word_embeddings = root.flag("tie_word_embeddings", is_gemma(shape));
  shape.attention_bias = shape.family == "qwen2";
  shape.qk_norm = shape.family == "qwen3" || shape.family == "gemma3";
  shape.layer_windows = read_windows(root, shape.family, shape.layers);
  read_ropes(root, shape);
  if (is_gemma(shape)) {
    const GemmaDefaults& defaults = gemma_defaults(shape.family);
    shape.attention_softcap = read_softcap(root, "attn_logit_softcapping", defaults.attention_softcap);
    shape.final_softcap = read_softcap(root, "final_logit_softcapping", defaults.final_softcap);
  }
  shape.max_position_embeddings =
      root.size("max_position_embeddings").value_or(default_max_position_embeddings(shape.family));
  set_family_constants(shape);
  return shape;
}

}  // namespace

ModelShape parse_hf_config(const std::string& text, const std::string& name) {
  const json root = parse_json(text, name);
  if (!root.is_object()) fail_config("{}: expected a JSON object, got {}", name, root.type_name());
  const json text_model = text_model_config(root);
  return read_shape(HfSection(text_model, name));
}

ModelShape read_hf_config(const fs::path& path) {
  const fs::path file = fs::is_directory(path) ? path / "config.json" : path;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail_config("{}: cannot be read; expected the config.json of a Hugging Face model", file.string());
  std::ostringstream text;
  text << stream.rdbuf();
  return parse_hf_config(text.str(), file.string());
}

}  // namespace maxtext
