#include "train/start_point.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "config/value.h"
#include "model/hf_config.h"

namespace maxtext {
namespace {

/// A dimension under its name in config.json and the key that sets it here.
struct Dimension {
  const char* hf_name;
  const char* key;
  std::int64_t found;
  std::int64_t wanted;
};

std::vector<Dimension> dimensions(const ModelShape& found, const ModelShape& wanted) {
  return {{"vocab_size", "vocab_size", found.vocab_size, wanted.vocab_size},
          {"hidden_size", "base_emb_dim", found.hidden_size, wanted.hidden_size},
          {"intermediate_size", "base_mlp_dim", found.intermediate_size, wanted.intermediate_size},
          {"num_hidden_layers", "base_num_decoder_layers", found.layers, wanted.layers},
          {"num_attention_heads", "base_num_query_heads", found.query_heads, wanted.query_heads},
          {"num_key_value_heads", "base_num_kv_heads", found.kv_heads, wanted.kv_heads},
          {"head_dim", "head_dim", found.head_dim, wanted.head_dim},
          {"tie_word_embeddings", "logits_via_embedding", found.tie_word_embeddings, wanted.tie_word_embeddings},
          {"attention_bias", "attention_bias", found.attention_bias, wanted.attention_bias},
          {"q_norm and k_norm", "use_qk_norm", found.qk_norm, wanted.qk_norm},
          {"post_feedforward_layernorm", "use_post_ffw_norm", found.post_norms, wanted.post_norms}};
}

/// What tensors fit with either value, so that nobody would notice: it may be meant (longer context), or not.
std::vector<std::string> silent_differences(const ModelShape& found, const ModelShape& wanted) {
  std::vector<std::string> differences;
  const auto number = [&](const char* name, double from, double to) {
    if (from != to) differences.push_back(fmt::format("{} was {} and is {}", name, from, to));
  };
  number("rms_norm_eps", found.rms_norm_eps, wanted.rms_norm_eps);
  number("rope_theta", found.rope.theta, wanted.rope.theta);
  number("query_scale", found.query_scale, wanted.query_scale);
  number("attn_logit_softcapping", found.attention_softcap, wanted.attention_softcap);
  number("final_logit_softcapping", found.final_softcap, wanted.final_softcap);
  if (found.local_rope != wanted.local_rope) {
    differences.push_back("the rotary embedding of layers with a window differs");
  }
  RopeShape rope = found.rope;
  rope.theta = wanted.rope.theta;
  if (rope != wanted.rope) differences.push_back("the scaling of RoPE differs");
  if (found.layer_windows != wanted.layer_windows) differences.push_back("sliding windows differ");
  return differences;
}

void check_same_model(const Config& config, const RunSetup& setup, StartPoint& start) {
  const nlohmann::json hf_config = start.weights->hf_config();
  if (!hf_config.is_object() || hf_config.empty()) return;
  const std::string& path = config.text("load_parameters_path");
  const ModelShape found = parse_hf_config(hf_config.dump(), "config.json of " + path);
  for (const Dimension& dimension : dimensions(found, setup.shape)) {
    if (dimension.found == dimension.wanted) continue;
    fail_config("{}: its config.json has {} {}, but this run's model has {} ({})",
                config.describe("load_parameters_path"), dimension.hf_name, dimension.found, dimension.wanted,
                dimension.key);
  }
  for (const std::string& difference : silent_differences(found, setup.shape)) {
    start.notes.push_back(fmt::format("note: load_parameters_path={}: {}", path, difference));
  }
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
  for (const std::string& difference : silent_differences(found, setup.shape)) {
    start.notes.push_back(fmt::format("note: not the model of the checkpoint: {}", difference));
  }
}

/// One line for each checkpoint after the newest complete one, which is where people expect the run to go on.
void note_incomplete(const RunSetup& setup, const std::filesystem::path& newest, StartPoint& start) {
  const std::int64_t step = newest.empty() ? -1 : std::stoll(newest.filename().string());
  const auto incomplete = incomplete_checkpoints(setup.run_directory, step);
  for (const IncompleteCheckpoint& checkpoint : incomplete) {
    start.notes.push_back(
        fmt::format("note: {} is incomplete ({}), passed over", checkpoint.directory.string(), checkpoint.reason));
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

std::unique_ptr<WeightSource> given_weights(const Config& config) {
  try {
    return open_weights(config.text("load_parameters_path"));
  } catch (const ConfigError& error) {
    fail_config("load_parameters_path: {}", error.what());
  }
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
    fail_config("load_full_state_path: {}", error.what());
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

void check_given_start(const Config& config) {
  full_state_checkpoint(config);
  if (!config.text("load_parameters_path").empty()) given_weights(config);
}

StartPoint find_start(const Config& config, const RunSetup& setup) {
  StartPoint start;
  std::filesystem::path directory;
  if (config.flag("enable_checkpointing")) {
    directory = latest_checkpoint(setup.run_directory);
    note_incomplete(setup, directory, start);
  }
  start.resumes_own_run = !directory.empty();
  if (directory.empty()) directory = full_state_checkpoint(config);
  const bool passed_over = !start.notes.empty() && !start.resumes_own_run;
  if (!directory.empty()) {
    open_checkpoint(config, setup, directory, start);
  } else if (!config.text("load_parameters_path").empty()) {
    start.weights = given_weights(config);
    check_same_model(config, setup, start);
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
