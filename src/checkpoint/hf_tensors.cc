#include "checkpoint/hf_tensors.h"

#include "base/json_text.h"
#include "model/hf_text_model.h"

namespace maxtext {
namespace {

using nlohmann::json;

json read_config(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "config.json";
  return std::filesystem::exists(path) ? read_json_object(path) : json::object();
}

}  // namespace

HfTensors::HfTensors(const std::filesystem::path& path) : set_(path) {
  const json config = read_config(set_.path());
  config_ = text_model_config(config);
  if (!is_multimodal(config)) return;
  for (const std::string& stored : set_.names()) {
    if (const auto name = text_model_tensor(stored)) stored_.emplace(*name, stored);
  }
}

std::vector<std::string> HfTensors::names() const {
  if (stored_.empty()) return set_.names();
  std::vector<std::string> names;
  for (const auto& [name, stored] : stored_) names.push_back(name);
  return names;
}

bool HfTensors::contains(std::string_view name) const {
  return stored_.empty() ? set_.contains(name) : stored_.contains(name);
}

std::string_view HfTensors::stored_name(std::string_view name) const {
  const auto found = stored_.find(name);
  return found == stored_.end() ? name : std::string_view(found->second);
}

}  // namespace maxtext
