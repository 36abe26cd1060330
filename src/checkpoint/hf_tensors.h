// The weights of a Hugging Face directory under the names of the text model, with its config.json.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/safetensors.h"

namespace maxtext {

/// A SafetensorsSet, or, of a multimodal checkpoint, the part of it that model/hf_text_model.h speaks of.
class HfTensors {
 public:
  /// Throws as SafetensorsSet does, and ConfigError for a config.json that is no object of JSON.
  explicit HfTensors(const std::filesystem::path& path);

  /// Sorted.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  /// Both throw Error that names the directory when there is no such tensor.
  const SafetensorsEntry& at(std::string_view name) const { return set_.at(stored_name(name)); }
  const SafetensorsFile& file_of(std::string_view name) const { return set_.file_of(stored_name(name)); }

  /// config.json of the text model; an empty object when there is none.
  const nlohmann::json& config() const { return config_; }

 private:
  std::string_view stored_name(std::string_view name) const;

  SafetensorsSet set_;
  nlohmann::json config_;
  /// Name -> stored name; empty where they are the same.
  std::map<std::string, std::string, std::less<>> stored_;
};

}  // namespace maxtext
