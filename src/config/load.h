// Loading a configuration: base.yml, then the model's file, then the run file, then the environment, then key=value.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"

namespace maxtext {

struct ConfigRequest {
  /// base.yml, or a run file that names its `base_config`. A path that does not exist is also tried below `configs/`.
  std::filesystem::path file;
  /// `key=value`, later ones win.
  std::vector<std::string> overrides;
  /// Variables `M_<KEY>`; others are ignored. See process_environment().
  std::vector<std::pair<std::string, std::string>> environment;
  /// Devices that a launcher (mpirun, srun) started; nothing when this process is alone.
  std::optional<int> launched_devices;
  /// Whether what a run needs must be there: the files named by keys (data, tokenizer, checkpoints to load), and a
  /// run_name when checkpoints are on. Off for commands that only look at the configuration.
  bool check_files = true;
  /// Whether check_files asks for the run_name: not where data are read, but nothing is saved.
  bool saves_run = true;
  /// Whether data are only evaluated: text unless dataset_type says otherwise, with the model's own tokenizer where it
  /// has one, and held-out files do without training data.
  bool only_evaluates = false;
};

/// The whole environment of this process.
std::vector<std::pair<std::string, std::string>> process_environment();

/// The base.yml that `file` is or names, through any number of run files. Throws ConfigError when there is none.
std::filesystem::path find_base_file(const std::filesystem::path& file);

/// The files that a configuration from `file` may come from: it, those that it is based on, and every model's. Throws
/// ConfigError as find_base_file does.
std::vector<std::filesystem::path> configuration_files(const std::filesystem::path& file);

/// Loads and checks a configuration (config/rules.h) before any data is read. Throws ConfigError with one line.
Config load_config(const ConfigRequest& request);

}  // namespace maxtext
