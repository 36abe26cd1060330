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

void add_checkpoints(const fs::path& path, InputFiles& inputs) {
  const fs::path run = checkpoints_directory(path);
  std::error_code unreadable;  // which its reader will say
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(fs::is_directory(run, unreadable) ? run : path, unreadable)) {
    inputs.push_back(entry.path());
  }
}

/// Of weights or a tokenizer.
void add_model(const fs::path& path, InputFiles& inputs) {
  if (path.empty()) return;
  inputs.push_back(path);
  if (holds_checkpoint(path)) return add_checkpoints(path, inputs);
  if (path.filename() == "tokenizer.json") inputs.push_back(path.parent_path() / "tokenizer_config.json");
  std::error_code not_a_folder;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, not_a_folder)) {
    if (is_read_from_model_folder(entry.path())) inputs.push_back(entry.path());
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
  // Without emptying it: until there is something to write, what stands there is worth more.
  if (!std::ofstream(path, std::ios::app)) fail_config("{} {}: cannot be written", option, path.string());
}

}  // namespace maxtext
