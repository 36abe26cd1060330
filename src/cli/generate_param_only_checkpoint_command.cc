#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_import.h"
#include "checkpoint/layout.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "config/resolve.h"
#include "train/run_lock.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;

/// A checkpoint's folder (also its items, as MaxText names it), or the newest of a run directory.
fs::path find_checkpoint(const fs::path& path) {
  if (!fs::exists(path)) fail_config("load_full_state_path={}: no such folder", path.string());
  if (fs::exists(path / kItems / kManifest)) return path;
  if (fs::exists(path / kManifest)) return fs::canonical(path).parent_path();
  fs::path newest = latest_checkpoint(path);
  if (newest.empty()) {
    fail_config("load_full_state_path={}: expected .../checkpoints/STEP, or a run directory with a complete checkpoint",
                path.string());
  }
  return newest;
}

}  // namespace

int generate_param_only_checkpoint_command(const Arguments& arguments) {
  CLI::App options("Write the weights of load_full_state_path, without optimizer state, as checkpoint 0 of run_name.",
                   "maxtext generate-param-only-checkpoint");
  Arguments rest;
  options.add_option("config", rest, "FILE key=value ...: configs/base.yml or a run file, and overrides")->required();
  if (!parse_arguments(options, arguments)) return 0;
  ConfigRequest request = config_request(rest);
  request.check_files = false;
  const Config config = load_config(request);
  note_ignored_keys(config);
  if (config.text("load_full_state_path").empty()) {
    fail_config("load_full_state_path is empty: name the checkpoint to take the weights from");
  }
  if (config.text("run_name").empty()) fail_config("run_name is empty: name the run that gets the weights");
  const fs::path source = find_checkpoint(config.text("load_full_state_path"));
  const fs::path target = resolve_run_directory(config);
  if (!latest_checkpoint(target).empty()) {
    fail_config("run_name={}: {} has checkpoints already; give another name", config.text("run_name"), target.string());
  }
  const RunLock lock(target);
  SaveOptions save;
  save.run_directory = target;
  const SaveResult result = save_weights_only(source, save);
  fmt::print("wrote the weights of {} to {}\n", source.string(), result.directory.string());
  return 0;
}

}  // namespace maxtext
