#include "cli/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "base/error.h"
#include "mesh/mpi_transport.h"

namespace maxtext {

ConfigRequest config_request(const Arguments& file_and_overrides) {
  if (file_and_overrides.empty() || file_and_overrides.front().empty() ||
      file_and_overrides.front().find('=') != std::string::npos) {
    fail_config("the first argument has to be a configuration file, as configs/base.yml");
  }
  ConfigRequest request;
  request.file = file_and_overrides.front();
  request.overrides.assign(file_and_overrides.begin() + 1, file_and_overrides.end());
  request.environment = process_environment();
  return request;
}

void note_ignored_keys(const Config& config, std::span<const std::string_view> without_effect,
                       const std::vector<std::string>& more) {
  std::vector<std::string> names = config.ignored_keys_set();
  for (const std::string_view key : without_effect) {
    if (config.is_set(key) && config.value(key) != Config().value(key)) {
      names.push_back(fmt::format("{}={}", key, format_value(config.value(key))));
    }
  }
  if (config.text("dataset_type") == "synthetic" && config.is_set("dataset_path")) {
    names.push_back("dataset_path (dataset_type=synthetic)");
  }
  const std::string& strategy = config.text("context_parallel_reorder_strategy");
  if (!config.flag("context_parallel_load_balance") && strategy != "auto" && strategy != "none") {
    names.push_back(
        fmt::format("context_parallel_reorder_strategy={} (context_parallel_load_balance=false)", strategy));
  }
  names.insert(names.end(), more.begin(), more.end());
  if (names.empty() || launched_process_index() > 0) return;
  fmt::print(stderr, "maxtext: note: without effect here: {}\n", fmt::join(names, ", "));
}

Config load_command_config(ConfigRequest request, std::span<const std::string_view> without_effect) {
  request.check_files = false;
  Config config = load_config(request);
  note_ignored_keys(config, without_effect);
  return config;
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) fmt::print(stderr, "maxtext: note: {}\n", note);
}

void print_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) fmt::print(stderr, "{}\n", warning);
}

}  // namespace maxtext
