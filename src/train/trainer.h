// A training run: the part of it that a process has once (data, log, checkpoints), and the program of its devices.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "checkpoint/file_layer.h"
#include "config/config.h"
#include "mesh/transport.h"
#include "ops/engine.h"
#include "train/run_setup.h"

namespace maxtext {

/// What the command line chooses: the trainer sees no engine.
struct TrainEnvironment {
  /// The engine of a device, on the calling thread with `threads` cores.
  std::function<std::unique_ptr<Engine>(Communicator& communicator, int threads)> make_engine;
  /// Devices that a launcher started, one per process; nothing when all devices are threads of this process.
  std::optional<int> launched_devices;
  /// Predicted resident memory in bytes of a process with `local_devices` of the mesh's devices, each with `threads`
  /// cores, for the log's first line, which goes without where there is none.
  std::function<std::optional<std::int64_t>(const RunSetup& setup, int local_devices, int threads)> predict_memory =
      [](const RunSetup&, int, int) { return std::nullopt; };
  /// What checkpoints are written through: tests make disks fail.
  std::shared_ptr<FileLayer> files = std::make_shared<PosixFileLayer>();
};

struct TrainSummary {
  /// Steps completed in all, over resumes.
  std::int64_t completed_steps = 0;
  double last_loss = 0;
  enum class End { all_steps, end_of_data, signal } end = End::all_steps;
};

/// Runs `config` to its end: resumes the newest complete checkpoint of its run directory if there is one, trains,
/// evaluates, saves. Prints MaxText's step lines and how the run ended to stdout. Throws ConfigError before any data is
/// read, Error when a device fails, the data is corrupt, the loss is not finite or the last checkpoint cannot be saved.
TrainSummary train(const Config& config, const TrainEnvironment& environment);

}  // namespace maxtext
