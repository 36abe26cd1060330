#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_import.h"
#include "cli/arguments.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "config/resolve.h"
#include "inference/model_files.h"
#include "train/run_lock.h"
#include "train/start_point.h"

namespace maxtext {

int generate_param_only_checkpoint_command(const Arguments& arguments) {
  CommandLine command_line(
      "maxtext generate-param-only-checkpoint",
      "Write the weights of load_full_state_path, without optimizer state, as checkpoint 0 of run_name.");
  Arguments rest;
  command_line.config_option(rest);
  if (!command_line.parse(arguments)) return 0;
  const Config config = load_command_config(config_request(rest));
  if (config.text("load_full_state_path").empty()) {
    fail_config("load_full_state_path is empty: name the checkpoint to take the weights from");
  }
  if (config.text("run_name").empty()) fail_config("run_name is empty: name the run that gets the weights");
  full_state_checkpoint(config);  // a Hugging Face directory is none
  const ModelFiles source = open_model_files(config, "load_full_state_path");
  print_warnings(source.warnings);
  const std::filesystem::path target = resolve_run_directory(config);
  if (!latest_checkpoint(target).empty()) {
    fail_config("run_name={}: {} has checkpoints already; give another name", config.text("run_name"), target.string());
  }
  const RunLock lock(target);
  SaveOptions save;
  save.run_directory = target;
  const SaveResult result = save_weights_only(source.directory, save);
  fmt::print("wrote the weights of {} to {}\n", source.directory.string(), result.directory.string());
  return 0;
}

}  // namespace maxtext
