#include "model/hf_text_model.h"

namespace maxtext {

using nlohmann::json;

bool is_multimodal(const json& config) {
  return config.is_object() && config.contains("text_config") && config.at("text_config").is_object() &&
         config.contains("model_type") && config.at("model_type") == "gemma3";
}

json text_model_config(const json& config) {
  if (!is_multimodal(config)) return config;
  json text = config.at("text_config");
  text["model_type"] = "gemma3_text";
  text["architectures"] = {"Gemma3ForCausalLM"};
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id", "dtype", "torch_dtype", "quantization_config",
                          "transformers_version"}) {
    if (!text.contains(key) && config.contains(key)) text[key] = config.at(key);
  }
  return text;
}

std::optional<std::string> text_model_tensor(std::string_view stored) {
  constexpr std::string_view kOuter = "language_model.";
  constexpr std::string_view kInner = "model.language_model.";
  if (stored.starts_with(kOuter)) return std::string(stored.substr(kOuter.size()));
  if (stored.starts_with(kInner)) return "model." + std::string(stored.substr(kInner.size()));
  if (stored == "lm_head.weight") return std::string(stored);
  return std::nullopt;
}

}  // namespace maxtext
