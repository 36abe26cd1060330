#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "model/hf_config.h"

namespace maxtext {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kFamilies{"llama", "mistral", "qwen2", "qwen3"};
constexpr std::int64_t kLargestSize = std::int64_t{1} << 40;

/// One JSON object of the file. A key that is null counts as absent, as in transformers.
class Section {
 public:
  Section(const json& object, std::string name) : object_(object), name_(std::move(name)) {}

  const json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  std::optional<std::int64_t> size(const char* key) const {
    const json* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_number_integer() || value->get<double>() < 1 ||
        value->get<double>() > static_cast<double>(kLargestSize)) {
      reject(key, "a positive integer");
    }
    return value->get<std::int64_t>();
  }

  std::int64_t required_size(const char* key) const {
    const std::optional<std::int64_t> value = size(key);
    if (!value) fail_config("{}: {} is missing", name_, key);
    return *value;
  }

  std::optional<double> positive(const char* key) const {
    const json* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_number() || !(value->get<double>() > 0) || !std::isfinite(value->get<double>())) {
      reject(key, "a positive number");
    }
    return value->get<double>();
  }

  double required_positive(const char* key) const {
    const std::optional<double> value = positive(key);
    if (!value) fail_config("{}: {} is missing", name_, key);
    return *value;
  }

  bool flag(const char* key, bool otherwise) const {
    const json* value = find(key);
    if (!value) return otherwise;
    if (!value->is_boolean()) reject(key, "true or false");
    return value->get<bool>();
  }

  std::optional<std::string> text(const char* key) const {
    const json* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_string()) reject(key, "a string");
    return value->get<std::string>();
  }

  /// A part of the file, as rope_scaling; nothing when it is absent.
  std::optional<Section> section(const char* key) const {
    const json* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_object()) reject(key, "an object");
    return Section(*value, name_ + ": " + key);
  }

  [[noreturn]] void reject(const char* key, std::string_view expected) const {
    fail_config("{}: {}={}: expected {}", name_, key, object_.at(key).dump(), expected);
  }

  const std::string& name() const { return name_; }

 private:
  const json& object_;
  std::string name_;
};

std::string read_family(const Section& root) {
  const std::optional<std::string> family = root.text("model_type");
  if (!family) fail_config("{}: model_type is missing; is this a config.json of Hugging Face?", root.name());
  for (const std::string_view known : kFamilies) {
    if (*family == known) return *family;
  }
  const bool planned = family->starts_with("gemma");
  fail_config("{}: model_type={}: {}; known are {}", root.name(), *family,
              planned ? "not supported yet" : "unknown model family", fmt::join(kFamilies, ", "));
}

/// Features that would change the result if they were passed over.
void refuse_what_would_be_ignored(const Section& root, const std::string& family) {
  if (const auto activation = root.text("hidden_act"); activation && *activation != "silu") {
    root.reject("hidden_act", "silu");
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

RopeType rope_type(const Section& rope) {
  // `type` is the name that transformers used before 4.43.
  const char* key = rope.find("rope_type") ? "rope_type" : "type";
  const std::string type = rope.text(key).value_or("default");
  if (type == "default") return RopeType::plain;
  if (type == "linear") return RopeType::linear;
  if (type == "llama3") return RopeType::llama3;
  rope.reject(key, "default, linear or llama3");
}

void refuse_rope_per_layer_type(const Section& rope) {
  for (const char* key : {"full_attention", "sliding_attention"}) {
    if (rope.find(key)) fail_config("{}: {}: a rotary embedding per layer type is not supported yet", rope.name(), key);
  }
}

/// `rope_parameters` (transformers 5) or `rope_scaling` (before it); a plain embedding has neither or an empty one.
std::optional<Section> rope_section(const Section& root) {
  if (std::optional<Section> parameters = root.section("rope_parameters")) return parameters;
  return root.section("rope_scaling");
}

RopeShape read_rope(const Section& root) {
  RopeShape shape;
  shape.theta = root.positive("rope_theta").value_or(shape.theta);
  const std::optional<Section> rope = rope_section(root);
  if (!rope) return shape;

  refuse_rope_per_layer_type(*rope);
  if (const auto part = rope->positive("partial_rotary_factor"); part && *part != 1.0) {
    rope->reject("partial_rotary_factor", "1, the whole head is rotated");
  }
  shape.theta = rope->positive("rope_theta").value_or(shape.theta);
  shape.type = rope_type(*rope);
  if (shape.type == RopeType::plain) return shape;
  shape.factor = rope->required_positive("factor");
  if (shape.type == RopeType::linear) return shape;
  shape.low_freq_factor = rope->required_positive("low_freq_factor");
  shape.high_freq_factor = rope->required_positive("high_freq_factor");
  shape.original_max_position_embeddings = rope->required_size("original_max_position_embeddings");
  if (shape.high_freq_factor <= shape.low_freq_factor) {
    rope->reject("high_freq_factor", fmt::format("a number above low_freq_factor={}", shape.low_freq_factor));
  }
  return shape;
}

std::vector<std::int64_t> windows_of_layer_types(const Section& root, std::int64_t layers, std::int64_t window) {
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

std::vector<std::int64_t> read_windows(const Section& root, const std::string& family, std::int64_t layers) {
  std::vector<std::int64_t> windows(static_cast<std::size_t>(layers), 0);
  if (family == "llama") return windows;
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

std::int64_t default_head_dim(const Section& root, const ModelShape& shape) {
  constexpr std::int64_t kQwen3HeadDim = 128;
  if (shape.family == "qwen3") return kQwen3HeadDim;
  if (shape.hidden_size % shape.query_heads != 0) {
    root.reject("hidden_size",
                fmt::format("a multiple of num_attention_heads={}, as head_dim is not given", shape.query_heads));
  }
  return shape.hidden_size / shape.query_heads;
}

void read_heads(const Section& root, ModelShape& shape) {
  shape.query_heads = root.required_size("num_attention_heads");
  shape.kv_heads = shape.family == "llama" ? root.size("num_key_value_heads").value_or(shape.query_heads)
                                           : root.required_size("num_key_value_heads");
  if (shape.query_heads % shape.kv_heads != 0) {
    root.reject("num_attention_heads", fmt::format("a multiple of num_key_value_heads={}", shape.kv_heads));
  }
  const std::optional<std::int64_t> head_dim = root.size("head_dim");
  shape.head_dim = head_dim ? *head_dim : default_head_dim(root, shape);
  if (shape.head_dim % 2 != 0) {
    fail_config("{}: head_dim={}: expected an even number, the rotary embedding turns pairs", root.name(),
                shape.head_dim);
  }
  shape.query_scale = root.positive("query_scale").value_or(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
}

std::int64_t default_max_position_embeddings(const std::string& family) {
  if (family == "llama") return 2048;
  return family == "mistral" ? 131072 : 32768;
}

ModelShape read_shape(const Section& root) {
  ModelShape shape;
  shape.family = read_family(root);
  refuse_what_would_be_ignored(root, shape.family);
  shape.vocab_size = root.required_size("vocab_size");
  shape.hidden_size = root.required_size("hidden_size");
  shape.intermediate_size = root.required_size("intermediate_size");
  shape.layers = root.required_size("num_hidden_layers");
  read_heads(root, shape);
  shape.rms_norm_eps = root.positive("rms_norm_eps").value_or(1e-6);
  shape.rope = read_rope(root);
  shape.tie_word_embeddings = root.flag("tie_word_embeddings", false);
  shape.attention_bias = shape.family == "qwen2";
  shape.qk_norm = shape.family == "qwen3";
  shape.layer_windows = read_windows(root, shape.family, shape.layers);
  shape.max_position_embeddings =
      root.size("max_position_embeddings").value_or(default_max_position_embeddings(shape.family));
  return shape;
}

}  // namespace

ModelShape parse_hf_config(const std::string& text, const std::string& name) {
  const json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) fail_config("{}: not valid JSON", name);
  if (!root.is_object()) fail_config("{}: expected a JSON object, got {}", name, root.type_name());
  return read_shape(Section(root, name));
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
