// Files that commands write beside files that they read: the one must not replace the other.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/config.h"

namespace maxtext {

using InputFiles = std::vector<std::filesystem::path>;

/// What is read for any command with these arguments: `file` with the files that it is based on and those of models,
/// and what prompt_file, tokenizer_path, load_parameters_path and load_full_state_path lead to. Data are not among
/// them.
InputFiles input_files(const std::filesystem::path& file, const Config& config);

/// Throws ConfigError where `path` is one of the inputs, however both are spelled or linked. `option` is what named it,
/// as "--json".
void check_is_no_input(const std::string& option, const std::filesystem::path& path, const InputFiles& inputs);

/// The same, and throws ConfigError where `path` cannot be written. What it holds stays as it is, and where there was
/// no file there is none afterwards.
void check_output_file(const std::string& option, const std::filesystem::path& path, const InputFiles& inputs);

}  // namespace maxtext
