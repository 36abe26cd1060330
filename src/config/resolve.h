// What follows from several keys together: mesh sizes, batch sizes, lengths of the schedule.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"

namespace maxtext {

/// Sizes of the mesh axes data, fsdp, context, tensor (the order of mesh/mesh.h): dcn part times ici part.
using MeshSizes = std::array<int, 4>;

/// The mesh for the devices at hand: those of the launcher, else `num_devices`, else those of `compile_topology`, else
/// what the axes ask for.
/// A -1 (at most one per level) takes what the other axes of its level leave: in dcn the product is num_slices (-1:
/// that of the other dcn axes), in ici it is devices / num_slices; without a launcher, num_devices and
/// compile_topology it resolves to 1. Throws ConfigError when the product is not the number of devices.
MeshSizes resolve_mesh(const Config& config, std::optional<int> launched_devices = std::nullopt);

/// Groups of devices that are joined by the slow network: num_slices, or compile_topology_num_slices where a topology
/// is given, or else the product of the dcn axes. Throws ConfigError when the first two disagree.
std::int64_t resolve_slices(const Config& config);

/// The product of the axes: number of devices of the run.
int device_count(const MeshSizes& mesh);

struct BatchSizes {
  /// Rows per optimizer step, over all devices and micro-batches: MaxText's global_batch_size_to_train_on,
  /// per_device_batch_size * devices * gradient_accumulation_steps.
  std::int64_t global = 0;
  /// Rows per micro-batch over all devices.
  std::int64_t micro = 0;
  /// Rows per micro-batch in one group of data x fsdp; devices along context share them.
  std::int64_t local = 0;
  /// Rows per device and micro-batch, a fraction under context parallelism: MaxText's per_device_batch_size.
  double per_device = 0;
};

/// From `global_batch_size` or `per_device_batch_size`. Throws ConfigError when both are set and disagree, or when the
/// batch cannot be divided.
BatchSizes resolve_batch(const Config& config, const MeshSizes& mesh);

/// `steps`, or learning_rate_schedule_steps where it is -1; and the other way round.
std::int64_t resolve_steps(const Config& config);
std::int64_t resolve_schedule_steps(const Config& config);

/// `context_parallel_reorder_strategy`, or "none" when context_parallel_load_balance is false.
std::string resolve_reorder_strategy(const Config& config);

/// The paths and globs of the training (`train_files`) or held-out (`eval_files`) data, as written: those of the list,
/// relative ones below `dataset_path` when that is set; `dataset_path` itself for training data without a list.
std::vector<std::string> resolve_train_files(const Config& config);
std::vector<std::string> resolve_eval_files(const Config& config);

/// `tokenizer_type` where somebody gave it; empty where the kind is left to what tokenizer_path leads to.
std::string resolve_tokenizer_type(const Config& config);

/// <base_output_directory>/<run_name>, MaxText's run directory.
std::string resolve_run_directory(const Config& config);

}  // namespace maxtext
