// Where a run begins.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "checkpoint/weight_source.h"
#include "train/run_setup.h"

namespace maxtext {

/// The member of CheckpointInfo::cursor that holds StartPoint::cursor.
inline constexpr const char* kNextRow = "next_row";

/// The member of CheckpointInfo::trainer that holds Dataset::fingerprint of the training data.
inline constexpr const char* kTrainingData = "training_data";

/// A checkpoint, given weights, or initial ones.
struct StartPoint {
  std::unique_ptr<CheckpointReader> checkpoint;
  std::unique_ptr<WeightSource> weights;
  /// Whether `checkpoint` is of this run, not of one that it branches off.
  bool resumes_own_run = false;
  std::int64_t completed_steps = 0;
  /// Next row of the training data.
  std::int64_t cursor = 0;
  /// What differs between then and now without being wrong, a line each.
  std::vector<std::string> notes;
};

/// The run directory's newest checkpoint, load_full_state_path, load_parameters_path, or nothing. Throws Error for
/// files that cannot be read, and ConfigError naming key and path when the weights of load_parameters_path are of
/// another model: by the config.json beside them (other dimensions, biases, norms, or another head), or by their
/// tensors.
StartPoint find_start(const Config& config, const RunSetup& setup);

/// The checkpoint that load_full_state_path means: .../checkpoints/STEP, also with /items, or the newest of a run
/// directory; empty where the key is. Throws ConfigError naming the key for anything else.
std::filesystem::path full_state_checkpoint(const Config& config);

/// What find_start would throw for load_full_state_path and load_parameters_path by what lies there: before the run
/// directory is made. Costs the headers of files. A run that goes on from its own checkpoint does not look.
void check_given_start(const Config& config, const RunSetup& setup);

/// Throws `error`, met in the checkpoint of `directory`; if the run was to resume from it, with what to delete to go on
/// from the one before.
[[noreturn]] void throw_with_hint(const StartPoint& start, const RunSetup& setup,
                                  const std::filesystem::path& directory, const DamagedCheckpoint& error);

/// A line for a run that goes on with other training data than its checkpoint was trained on, whatever the keys say:
/// what it was and is, and what to do. Nothing without a checkpoint, or with one that does not say.
std::optional<std::string> note_other_data(const StartPoint& start, const std::string& training_data);

}  // namespace maxtext
