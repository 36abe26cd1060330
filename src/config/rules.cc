#include "config/rules.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"
#include "config/model_shape.h"
#include "config/resolve.h"
#include "config/xla_options.h"

namespace maxtext {
namespace {

void check_parallelism(const Config& config, const RuleContext& context) {
  const MeshSizes mesh = resolve_mesh(config, context.launched_devices);
  resolve_batch(config, mesh);
}

void check_schedule(const Config& config) {
  if (config.integer("steps") == -1 && config.integer("learning_rate_schedule_steps") == -1) {
    fail_config("{}: -1 takes learning_rate_schedule_steps, which is -1 too; set one of them",
                config.describe("steps"));
  }
  const double warmup = config.real("warmup_steps_fraction");
  const double decay = config.real("wsd_decay_steps_fraction");
  if (config.text("lr_schedule_type") == "wsd" && warmup + decay > 1.0) {
    fail_config("{} and {}: their sum is above 1", config.describe("warmup_steps_fraction"),
                config.describe("wsd_decay_steps_fraction"));
  }
}

void check_optimizer(const Config& config) {
  for (const char* key : {"adam_b1", "adam_b2"}) {
    if (config.real(key) >= 1.0) fail_config("{}: expected a number below 1", config.describe(key));
  }
}

/// A folder of its own below base_output_directory, which holds the cache of tokenised text, too.
void check_run_name(const Config& config) {
  const std::string& name = config.text("run_name");
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    fail_config("run_name: it has a control character, expected the name of a folder");
  }
  if (name == "." || name == ".." || name == "dataset_cache" || name.find('/') != std::string::npos) {
    fail_config(
        "{}: expected the name of a folder of its own in base_output_directory: no '/', '.', '..' or "
        "'dataset_cache'",
        config.describe("run_name"));
  }
}

void check_checkpoints(const Config& config, const RuleContext& context) {
  if (!config.text("load_parameters_path").empty() && !config.text("load_full_state_path").empty()) {
    fail_config("{} and {}: set only one", config.describe("load_parameters_path"),
                config.describe("load_full_state_path"));
  }
  check_run_name(config);
  const bool saves = context.check_files && context.saves_run && config.flag("enable_checkpointing");
  if (saves && config.text("run_name").empty()) {
    fail_config("{}: checkpoints need a name for the run; set run_name, or enable_checkpointing=false",
                config.describe("run_name"));
  }
}

bool reads_files(const Config& config) { return config.text("dataset_type") != "synthetic"; }

void check_columns(const Config& config) {
  for (const char* key : {"train_data_columns", "eval_data_columns"}) {
    if (config.list(key).size() != 1) fail_config("{}: expected one field name", config.describe(key));
  }
}

/// Random tokens in place of data that somebody named would be noticed late. MaxText's command lines name dataset_path
/// beside dataset_type=synthetic, so that this alone is accepted where synthetic was asked for.
void check_synthetic(const Config& config) {
  for (const char* key : {"dataset_path", "train_files", "eval_files", "eval_split_fraction"}) {
    if (!config.is_set(key) || config.value(key) == Config().value(key)) continue;
    if (config.is_set("dataset_type") && std::string_view(key) == "dataset_path") continue;
    fail_config("{}: {} reads no files; set dataset_type=text, tokens or batches", config.describe(key),
                config.describe("dataset_type"));
  }
}

void check_data(const Config& config, bool only_evaluates) {
  check_columns(config);
  if (!reads_files(config)) return check_synthetic(config);
  if (resolve_train_files(config).empty() && !(only_evaluates && !config.list("eval_files").empty())) {
    if (only_evaluates) fail_config("there is no text to evaluate: set eval_files or dataset_path");
    fail_config("{}: needs data; set dataset_path or train_files", config.describe("dataset_type"));
  }
  const bool text = config.text("dataset_type") == "text" && !only_evaluates;
  if (text && config.text("tokenizer_type") != "bytes" && config.text("tokenizer_path").empty()) {
    fail_config(
        "{}: needs a tokenizer; set tokenizer_path (`maxtext train-tokenizer` makes one), or "
        "tokenizer_type=bytes",
        config.describe("dataset_type"));
  }
}

void check_held_out(const Config& config) {
  const bool split = config.real("eval_split_fraction") > 0;
  const bool files = !config.list("eval_files").empty();
  if (split && files) {
    fail_config("{} and {}: set only one", config.describe("eval_split_fraction"), config.describe("eval_files"));
  }
  if (split && config.text("dataset_type") == "batches") {
    fail_config("{}: batches cannot be split; set eval_files", config.describe("eval_split_fraction"));
  }
  if (config.integer("eval_interval") == -1) return;
  if (reads_files(config) && !split && !files) {
    fail_config("{}: there is no held-out data; set eval_files or eval_split_fraction",
                config.describe("eval_interval"));
  }
}

void check_not_remote(const Config& config, const char* key, const std::string& path) {
  const std::size_t scheme = path.find("://");
  if (scheme == std::string::npos || path.substr(0, scheme).find('/') != std::string::npos) return;
  fail_config("{}: {} paths are not supported; give a local path", config.describe(key), path.substr(0, scheme + 3));
}

/// Object stores would become folders of that name. What synthetic data do not read may say what it likes.
void check_paths_are_local(const Config& config) {
  for (const char* key : {"base_output_directory", "metrics_file", "load_parameters_path", "load_full_state_path",
                          "dataset_cache_directory"}) {
    check_not_remote(config, key, config.text(key));
  }
  if (!reads_files(config)) return;
  for (const char* key : {"dataset_path", "tokenizer_path"}) check_not_remote(config, key, config.text(key));
  for (const char* key : {"train_files", "eval_files"}) {
    for (const std::string& path : config.list(key)) check_not_remote(config, key, path);
  }
}

/// True when the path exists, or is a glob that something matches.
bool matches_something(const std::string& pattern) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_TILDE, nullptr, &found);
  const bool any = result == 0 && found.gl_pathc > 0;
  ::globfree(&found);
  std::error_code ignored;
  return any || std::filesystem::exists(pattern, ignored);
}

void check_path_key(const Config& config, const char* key) {
  const std::string& path = config.text(key);
  if (!path.empty() && !matches_something(path)) fail_config("{}: no such file or folder", config.describe(key));
}

void check_list_of_files(const Config& config, const char* key, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (!matches_something(path)) fail_config("{}: nothing matches '{}'", config.describe(key), path);
  }
}

void check_files(const Config& config) {
  for (const char* key : {"load_parameters_path", "load_full_state_path"}) check_path_key(config, key);
  if (!reads_files(config)) return;
  if (config.text("dataset_type") == "text" && config.text("tokenizer_type") != "bytes") {
    check_path_key(config, "tokenizer_path");
  }
  check_path_key(config, "dataset_path");
  check_list_of_files(config, "train_files", resolve_train_files(config));
  check_list_of_files(config, "eval_files", resolve_eval_files(config));
}

/// What the xla engine reads and writes. Whatever the cache's key says, the native engine has none.
void check_engine_paths(const Config& config, const EngineChoice& choice, const RuleContext& context) {
  check_not_remote(config, "xla_plugin_path", config.text("xla_plugin_path"));
  check_not_remote(config, "xla_dump_to", config.text("xla_dump_to"));
  if (choice.engine == EngineKind::native) return;
  check_not_remote(config, "jax_cache_dir", config.text("jax_cache_dir"));
  if (!context.check_files || choice.xla.plugin_path.empty()) return;
  std::error_code ignored;
  if (!std::filesystem::exists(choice.xla.plugin_path, ignored)) {
    fail_config("{}: there is nothing; expected a PJRT plugin, a shared library or a folder with one",
                config.describe("xla_plugin_path"));
  }
}

}  // namespace

void check_rules(const Config& config, const RuleContext& context) {
  const EngineChoice choice = engine_choice(config);
  model_shape(config);
  check_parallelism(config, context);
  check_schedule(config);
  check_optimizer(config);
  check_checkpoints(config, context);
  check_data(config, context.only_evaluates);
  check_held_out(config);
  check_paths_are_local(config);
  check_engine_paths(config, choice, context);
  if (context.check_files) check_files(config);
}

}  // namespace maxtext
