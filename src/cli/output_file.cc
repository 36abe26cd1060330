#include "cli/output_file.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "checkpoint/weight_source.h"
#include "config/load.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;

bool is_read_from_model_folder(const fs::path& file) {
  constexpr std::array<std::string_view, 6> kNames = {
      "config.json",    "generation_config.json", "model.safetensors.index.json",
      "tokenizer.json", "tokenizer_config.json",  "tokenizer.model"};
  return file.extension() == ".safetensors" || std::ranges::find(kNames, file.filename().string()) != kNames.end();
}

/// None of a folder that is not there or cannot be read, which its reader will say.
std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure); !failure && entry != fs::directory_iterator();
       entry.increment(failure)) {
    files.push_back(entry->path());
  }
  return files;
}

/// Nothing where the checkpoint is not one, which its reader will say.
fs::path checkpoint_of(const fs::path& path) {
  try {
    return find_checkpoint(path);
  } catch (const ConfigError&) {
    return {};
  }
}

/// What a reader opens of a checkpoint; a report may lie beside it.
void add_checkpoint(const fs::path& path, InputFiles& inputs) {
  const fs::path checkpoint = checkpoint_of(path);
  if (checkpoint.empty()) return;
  const fs::path items = checkpoint / kItems;
  inputs.insert(inputs.end(), {checkpoint / kMarker, items / kManifest});
  for (const fs::path& file : files_of(items)) {
    if (file.extension() == ".safetensors") inputs.push_back(file);
  }
}

/// Of weights or a tokenizer.
void add_model(const fs::path& path, InputFiles& inputs) {
  if (path.empty()) return;
  inputs.push_back(path);
  if (holds_checkpoint(path)) return add_checkpoint(path, inputs);
  if (path.filename() == "tokenizer.json") inputs.push_back(path.parent_path() / "tokenizer_config.json");
  for (const fs::path& file : files_of(path)) {
    if (is_read_from_model_folder(file)) inputs.push_back(file);
  }
}

}  // namespace

InputFiles input_files(const fs::path& file, const Config& config) {
  InputFiles inputs = configuration_files(file);
  inputs.emplace_back(config.text("prompt_file"));
  for (const char* key : {"tokenizer_path", "load_parameters_path", "load_full_state_path"}) {
    add_model(config.text(key), inputs);
  }
  return inputs;
}

void check_is_no_input(const std::string& option, const fs::path& path, const InputFiles& inputs) {
  std::error_code missing;
  if (!fs::is_regular_file(path, missing)) return;
  const auto same = std::ranges::find_if(inputs, [&](const fs::path& input) {
    std::error_code failure;
    return fs::equivalent(input, path, failure);
  });
  if (same == inputs.end()) return;
  fail_config("{} {}: {} is read by this command, and would be replaced: name another file", option, path.string(),
              *same == path ? "it" : same->string());
}

void check_output_file(const std::string& option, const fs::path& path, const InputFiles& inputs) {
  check_is_no_input(option, path, inputs);
  std::error_code missing;
  const bool existed = fs::exists(path, missing);
  // Without emptying it: until there is something to write, what stands there is worth more.
  if (!std::ofstream(path, std::ios::app)) fail_config("{} {}: cannot be written", option, path.string());
  // Nothing else would take the empty file away if the command failed. A link that led nowhere stays.
  if (!existed) fs::remove(fs::canonical(path, missing), missing);
}

}  // namespace maxtext
