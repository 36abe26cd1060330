// The text model inside a multimodal checkpoint of Hugging Face: Gemma 3 from 4B up has its decoder under names of its
// own, beside a vision tower that is left alone here.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace maxtext {

/// True for a config.json of model_type gemma3, whose text model is described under text_config.
bool is_multimodal(const nlohmann::json& config);

/// The config.json of the text model alone (model_type gemma3_text): text_config, with ids and dtype from around it.
/// Other configurations come back as they are.
nlohmann::json text_model_config(const nlohmann::json& config);

/// The name that a stored tensor has in the text model: without `language_model.`, which transformers puts before or
/// after the first `model.`; nothing for tensors of the vision tower and the projector.
std::optional<std::string> text_model_tensor(std::string_view stored);

}  // namespace maxtext
