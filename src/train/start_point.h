// Where a run begins.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/reader.h"
#include "checkpoint/weight_source.h"
#include "train/run_setup.h"

namespace maxtext {

/// The member of CheckpointInfo::cursor that holds StartPoint::cursor.
inline constexpr const char* kNextRow = "next_row";

/// A checkpoint, given weights, or initial ones.
struct StartPoint {
  std::unique_ptr<CheckpointReader> checkpoint;
  std::unique_ptr<WeightSource> weights;
  std::int64_t completed_steps = 0;
  /// Next row of the training data.
  std::int64_t cursor = 0;
  /// What differs between then and now without being wrong, a line each.
  std::vector<std::string> notes;
};

/// The run directory's newest checkpoint, load_full_state_path, load_parameters_path, or nothing. Throws Error for
/// files that cannot be read, and ConfigError when a config.json beside the weights of load_parameters_path describes
/// another model (other dimensions, biases, norms, or another head).
StartPoint find_start(const Config& config, const RunSetup& setup);

}  // namespace maxtext
