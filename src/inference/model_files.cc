#include "inference/model_files.h"

#include <fstream>

#include "base/error.h"
#include "model/hf_config.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json read_json_if_there(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return json::object();
  json value = json::parse(stream, nullptr, false);
  if (value.is_discarded()) fail_config("{}: not valid JSON", path.string());
  return value;
}

/// Errors of files that a key names are errors of that key.
std::unique_ptr<WeightSource> open_source(const std::string& path) {
  try {
    return open_weights(path);
  } catch (const Error& error) {
    fail_config("load_parameters_path={}: {}", path, error.what());
  }
}

}  // namespace

std::set<std::int32_t> eos_ids(const json& config, const std::string& name) {
  const auto found = config.is_object() ? config.find("eos_token_id") : config.end();
  if (!config.is_object() || found == config.end() || found->is_null()) return {};
  const json list = found->is_array() ? *found : json::array({*found});
  std::set<std::int32_t> ids;
  for (const json& id : list) {
    if (!id.is_number_integer()) fail_config("{}: eos_token_id: expected a number or a list of them", name);
    ids.insert(id.get<std::int32_t>());
  }
  return ids;
}

ModelFiles open_model_files(const Config& config) {
  const std::string& path = config.text("load_parameters_path");
  ModelFiles files;
  if (path.empty()) {
    files.shape = model_shape(config);
    return files;
  }
  files.weights = open_source(path);
  const json hf_config = files.weights->hf_config();
  const bool described = hf_config.is_object() && !hf_config.empty();
  if (config.text("model_name") != "default") {
    files.shape = model_shape(config);
  } else if (described) {
    files.shape = parse_hf_config(hf_config.dump(), (fs::path(path) / "config.json").string());
  } else {
    fail_config("load_parameters_path={}: there is no config.json; name the model with model_name", path);
  }
  files.stop_ids = eos_ids(hf_config, path + ": config.json");
  const fs::path generation = fs::path(path) / "generation_config.json";
  files.stop_ids.merge(eos_ids(read_json_if_there(generation), generation.string()));
  return files;
}

std::unique_ptr<Tokenizer> open_model_tokenizer(const Config& config) {
  const std::string& path = config.text("tokenizer_path");
  const std::string& type = config.text("tokenizer_type");
  if (!path.empty() || type == "bytes") return open_tokenizer(path, type);
  const fs::path model = config.text("load_parameters_path");
  if (!model.empty() && fs::exists(model / "tokenizer.json")) return open_tokenizer(model, "huggingface");
  if (!model.empty() && fs::exists(model / "tokenizer.model")) {
    return open_tokenizer(model / "tokenizer.model", "sentencepiece");
  }
  fail_config(
      "tokenizer_path is empty{}: name a sentencepiece model, or a tokenizer.json with tokenizer_type=huggingface",
      model.empty() ? "" : fmt::format(", and {} has no tokenizer.json or tokenizer.model", model.string()));
}

}  // namespace maxtext
