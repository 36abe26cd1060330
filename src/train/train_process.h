// What the devices of one process share in a training run.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "checkpoint/async_checkpointer.h"
#include "checkpoint/reader.h"
#include "checkpoint/weight_source.h"
#include "data/dataset_factory.h"
#include "mesh/transport.h"
#include "train/batch_provider.h"
#include "train/metrics.h"
#include "train/progress_bar.h"
#include "train/run_setup.h"
#include "train/signals.h"

namespace maxtext {

/// Where a run begins: at a checkpoint, at given weights, or at initial ones.
struct StartPoint {
  std::unique_ptr<CheckpointReader> checkpoint;
  std::unique_ptr<WeightSource> weights;
  std::int64_t completed_steps = 0;
  /// Next row of the training data.
  std::int64_t cursor = 0;
};

class TrainProcess {
 public:
  /// Opens data and the newest checkpoint. The order matters: what can be wrong without data comes first.
  TrainProcess(const Config& config, const RunSetup& setup, std::unique_ptr<Transport> transport);

  const Config& config() const { return config_; }
  const RunSetup& setup() const { return setup_; }
  Transport& transport() { return *transport_; }
  const StartPoint& start() const { return start_; }
  const StopSignal& stop_signal() const { return stop_signal_; }

  /// The batch of a step, or null at the end of the data.
  std::shared_ptr<const PlannedBatch> training_batch(std::int64_t step);

  bool has_evaluation() const { return evaluation_data_ != nullptr; }
  /// Batch `index` of evaluation number `evaluation` (each a pass over the same rows); null after the last.
  std::shared_ptr<const PlannedBatch> evaluation_batch(std::int64_t evaluation, std::int64_t index);

  /// Only device 0 of the run reports.
  void report_step(const StepMetrics& metrics);
  void report(const std::string& line);

  /// Saves checkpoint `completed_steps`: every local device calls `contribute` first, and one of them, after all have,
  /// `save`. With several processes saving is not concurrent with training, and `all_succeeded` agrees between them.
  void contribute(DeviceState state);
  void save(std::int64_t completed_steps, const std::function<bool(bool)>& all_succeeded);
  void wait_before_update();
  /// Waits for a save under way; true unless it failed.
  bool finish_saving();

 private:
  CheckpointInfo checkpoint_info(std::int64_t completed_steps) const;
  SaveOptions save_options() const;
  void report_save(const SaveResult& result);

  const Config& config_;
  const RunSetup& setup_;
  std::unique_ptr<Transport> transport_;
  StartPoint start_;
  std::unique_ptr<BatchProvider> training_;
  std::shared_ptr<Dataset> evaluation_data_;
  std::unique_ptr<BatchProvider> evaluation_;
  std::int64_t evaluation_number_ = -1;
  std::unique_ptr<MetricsFile> metrics_file_;
  std::unique_ptr<ProgressBar> progress_;
  StopSignal stop_signal_;
  std::mutex mutex_;
  std::vector<DeviceState> contributed_;
  std::unique_ptr<AsyncCheckpointer> checkpointer_;
  bool last_save_ok_ = true;
};

/// The run directory's newest checkpoint, load_full_state_path, load_parameters_path, or nothing.
StartPoint find_start(const Config& config, const RunSetup& setup);

}  // namespace maxtext
