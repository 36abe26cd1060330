#include "train/start_point.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/weight_check.h"
#include "config/key_error.h"
#include "config/value.h"
#include "model/hf_config.h"
#include "model/shape_differences.h"

namespace maxtext {
namespace {

void append(std::vector<std::string>& notes, const std::vector<std::string>& more) {
  notes.insert(notes.end(), more.begin(), more.end());
}

/// "rope_theta was 10000 and is 20000"
std::string in_words(const ShapeDifference& difference) {
  return fmt::format("{} was {} and is {}", difference.name, difference.found, difference.wanted);
}

/// Where a config.json lies beside the weights, it has to describe the run's model; notes of what tensors do not tell.
std::vector<std::string> check_same_model(const Config& config, const WeightSource& weights, const ModelShape& shape) {
  const nlohmann::json hf_config = weights.hf_config();
  if (!hf_config.is_object() || hf_config.empty()) return {};
  std::vector<std::string> notes;
  for (const ShapeDifference& difference : shape_differences(parse_hf_config(hf_config.dump(), "config.json"), shape)) {
    if (difference.in_tensors) {
      fail_config("its config.json has {} {}, but this run's model has {} ({})", difference.name, difference.found,
                  difference.wanted, difference.keys.front());
    }
    notes.push_back(
        fmt::format("note: load_parameters_path={}: {}", config.text("load_parameters_path"), in_words(difference)));
  }
  return notes;
}

/// The cursor counts rows that these keys make.
void note_other_rows(const Config& config, StartPoint& start) {
  for (const char* key : {"dataset_type", "dataset_path", "train_files", "tokenizer_type", "tokenizer_path",
                          "max_target_length", "packing", "max_segments_per_seq", "eval_split_fraction",
                          "enable_data_shuffling", "data_shuffle_seed", "add_bos", "add_eos", "document_separator",
                          "document_separator_id", "token_file_dtype", "train_data_columns"}) {
    const std::string now = format_value(config.value(key));
    const nlohmann::json& then = start.checkpoint->info().config;
    if (!then.contains(key) || then[key] == now) continue;
    start.notes.push_back(
        fmt::format("note: {} was {} in the checkpoint and is {} now: training goes on at row {} of other rows", key,
                    then[key].get<std::string>(), now, start.cursor));
  }
}

/// Shapes are checked tensor by tensor; this is what would go wrong silently.
void note_other_model(const RunSetup& setup, StartPoint& start) {
  const nlohmann::json& hf_config = start.checkpoint->info().hf_config;
  if (!hf_config.is_object() || hf_config.empty()) return;
  const ModelShape found = parse_hf_config(hf_config.dump(), start.checkpoint->directory().string());
  for (const ShapeDifference& difference : shape_differences(found, setup.shape)) {
    if (difference.in_tensors) continue;
    start.notes.push_back(fmt::format("note: not the model of the checkpoint: {}", in_words(difference)));
  }
}

void open_checkpoint(const Config& config, const RunSetup& setup, const std::filesystem::path& directory,
                     StartPoint& start) {
  try {
    start.checkpoint = std::make_unique<CheckpointReader>(directory);
  } catch (const DamagedCheckpoint& error) {
    throw_with_hint(start, setup, directory, error);
  }
  const CheckpointInfo& info = start.checkpoint->info();
  start.completed_steps = info.step;
  start.cursor = info.cursor.value(kNextRow, std::int64_t{0});
  note_other_rows(config, start);
  note_other_model(setup, start);
}

/// What a run starts from, with notes for it.
struct GivenWeights {
  std::unique_ptr<WeightSource> weights;
  std::vector<std::string> notes;
};

GivenWeights given_weights(const Config& config, const RunSetup& setup) {
  const std::string& path = config.text("load_parameters_path");
  try {
    FoundWeights found = find_weights(path);
    GivenWeights given{std::move(found.weights), std::move(found.notes)};
    append(given.notes, check_same_model(config, *given.weights, setup.shape));
    check_weights(*given.weights, setup.shape);
    return given;
  } catch (const ConfigError& error) {
    throw ConfigError(key_error("load_parameters_path", path, error.what()));
  }
}

/// The checkpoint that the run goes on from; empty where it has none.
std::filesystem::path own_checkpoint(const Config& config, const RunSetup& setup) {
  return config.flag("enable_checkpointing") ? latest_checkpoint(setup.run_directory) : std::filesystem::path();
}

}  // namespace

std::filesystem::path full_state_checkpoint(const Config& config) {
  std::filesystem::path path = config.text("load_full_state_path");
  if (path.empty()) return path;
  if (!holds_checkpoint(path)) {
    fail_config(
        "{}: no checkpoint: expected a run directory or .../checkpoints/STEP; load_parameters_path takes "
        "weights alone, also of a Hugging Face directory",
        config.describe("load_full_state_path"));
  }
  try {
    return find_checkpoint(path);
  } catch (const ConfigError& error) {
    throw ConfigError(key_error("load_full_state_path", config.text("load_full_state_path"), error.what()));
  }
}

void throw_with_hint(const StartPoint& start, const RunSetup& setup, const std::filesystem::path& directory,
                     const DamagedCheckpoint& error) {
  if (!start.resumes_own_run) throw error;
  const std::vector<std::int64_t> steps = complete_steps(setup.run_directory);
  const auto newest = std::find(steps.begin(), steps.end(), std::stoll(directory.filename().string()));
  fail("{}; delete {} to {}", error.what(), directory.string(),
       newest == steps.end() || newest == steps.begin()
           ? "begin again"
           : fmt::format("resume from the checkpoint before it, of step {}", *std::prev(newest)));
}

void check_given_start(const Config& config, const RunSetup& setup) {
  full_state_checkpoint(config);
  if (!config.text("load_parameters_path").empty() && own_checkpoint(config, setup).empty()) {
    given_weights(config, setup);
  }
}

StartPoint find_start(const Config& config, const RunSetup& setup) {
  StartPoint start;
  std::filesystem::path directory = own_checkpoint(config, setup);
  if (config.flag("enable_checkpointing")) {
    start.notes =
        notes_on_incomplete(setup.run_directory, directory.empty() ? -1 : std::stoll(directory.filename().string()));
  }
  start.resumes_own_run = !directory.empty();
  const bool passed_over = !start.notes.empty() && !start.resumes_own_run;
  if (directory.empty()) {
    directory = full_state_checkpoint(config);
    if (!directory.empty()) append(start.notes, notes_on_choice(config.text("load_full_state_path"), directory));
  }
  if (!directory.empty()) {
    open_checkpoint(config, setup, directory, start);
  } else if (!config.text("load_parameters_path").empty()) {
    GivenWeights given = given_weights(config, setup);
    start.weights = std::move(given.weights);
    append(start.notes, given.notes);
  }
  if (passed_over) {
    start.notes.push_back(fmt::format("note: no checkpoint of {} is complete: the run starts at step {}",
                                      setup.run_directory.string(), start.completed_steps));
  }
  return start;
}

std::optional<std::string> note_other_data(const StartPoint& start, const std::string& training_data) {
  if (start.checkpoint == nullptr) return std::nullopt;
  const std::string then = start.checkpoint->info().trainer.value(kTrainingData, std::string());
  if (then.empty() || then == training_data) return std::nullopt;
  return fmt::format(
      "note: the training data was {} in the checkpoint and is {} now: training goes on at row {} of other rows; bring "
      "the former data back, or start a run of another run_name with load_parameters_path={}",
      then, training_data.empty() ? "synthetic" : training_data, start.cursor, start.checkpoint->directory().string());
}

}  // namespace maxtext
