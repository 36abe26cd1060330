// From a configuration to the plain options of a training run.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "config/config.h"
#include "config/resolve.h"
#include "model/decoder.h"
#include "train/batch_provider.h"
#include "train/device_batch.h"
#include "train/optimizer.h"
#include "train/schedule.h"

namespace maxtext {

struct RunSetup {
  Mesh mesh;
  ModelShape shape;
  LayerAttentionTypes attention;
  BatchSizes batch;
  int micro_batches = 1;
  std::int64_t sequence_length = 0;
  std::int64_t steps = 0;
  ScheduleOptions schedule;
  OptimizerOptions optimizer;
  DecoderOptions decoder;
  PlanOptions plan;
  std::filesystem::path run_directory;
};

/// Throws ConfigError for what does not fit together.
RunSetup run_setup(const Config& config, std::optional<int> launched_devices);

/// All keys and values, for the record in a checkpoint.
nlohmann::json config_snapshot(const Config& config);

}  // namespace maxtext
