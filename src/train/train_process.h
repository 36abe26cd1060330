// What the devices of one process share in a training run.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "checkpoint/async_checkpointer.h"
#include "data/dataset_factory.h"
#include "mesh/transport.h"
#include "train/batch_provider.h"
#include "train/metrics.h"
#include "train/progress_bar.h"
#include "train/run_lock.h"
#include "train/run_setup.h"
#include "train/save_agreement.h"
#include "train/signals.h"
#include "train/start_point.h"
#include "train/stoppable_files.h"

namespace maxtext {

class TrainProcess {
 public:
  /// Opens data and the newest checkpoint. The order matters: what can be wrong without data comes first, and what the
  /// configuration got wrong before anything is created. `files` is what checkpoints are written through.
  /// `opening` makes the first lines of the log, once nothing of the configuration is wrong and before text is
  /// tokenised.
  TrainProcess(const Config& config, const RunSetup& setup, std::unique_ptr<Transport> transport,
               std::shared_ptr<FileLayer> files, const std::function<std::vector<std::string>()>& opening);

  const Config& config() const { return config_; }
  const RunSetup& setup() const { return setup_; }
  Transport& transport() { return *transport_; }
  /// Checkpoint and weights are there until all local devices have called `loaded`.
  const StartPoint& start() const { return start_; }
  const StopSignal& stop_signal() const { return *stop_signal_; }

  /// A device has what it needs of the start's tensors. After the last one their files are closed: mapped, they would
  /// count as memory of the process, and keep the disk space of a checkpoint that is removed meanwhile.
  void loaded();

  /// The batch of a step, or null at the end of the data.
  std::shared_ptr<const PlannedBatch> training_batch(std::int64_t step);

  /// What training_batch would throw for `step`; null when it is fine, also when the data has ended. The step before it
  /// asks, while it can still be finished and saved.
  std::exception_ptr training_error(std::int64_t step) { return training_->error_of(step); }

  bool has_evaluation() const { return evaluation_data_ != nullptr; }
  /// Batch `index` of evaluation number `evaluation` (each a pass over the same rows); null after the last.
  std::shared_ptr<const PlannedBatch> evaluation_batch(std::int64_t evaluation, std::int64_t index);

  /// Only device 0 of the run reports. A full disk loses lines of the metrics file and says so; it does not end a run.
  void report_step(const StepMetrics& metrics);
  void report(const std::string& line);

  /// Communication that saving needs with several processes: true on all iff the argument is true on all.
  using Agree = std::function<bool(bool)>;

  /// Saving checkpoint `completed_steps`: every local device calls `wait_for_save` and `contribute`, and one of them,
  /// after all have, `start_save`, which returns at once. From then on `wait_before_update` protects the memory until
  /// it is written, and each device calls `serve_save` once per step; both do nothing when no save is under way.
  void contribute(DeviceState state);
  void start_save(std::int64_t completed_steps);
  void wait_before_update(const Agree& agree);
  void serve_save(const Agree& agree);

  /// Returns when no save is under way. Waits outside collectives, so that the watchdog does not take a slow disk for a
  /// dead device.
  void wait_for_save(const Agree& agree);

  /// Why the last save failed; empty if it did not. To be asked when none is under way.
  const std::string& save_error() const { return save_error_; }

  /// A device failed for `reason`. If a save is under way, says so at once, since the end may take as long as a slow
  /// disk, and makes the save give up if it still reads the devices' memory. One whose data are written goes on: it is
  /// valid, and what is left is short.
  void give_up(int device, const std::string& reason);

  /// A device ends, perhaps by an exception: returns when its memory is no longer read. Never throws.
  void leave() noexcept;

 private:
  std::optional<std::string> note_early_end(std::optional<std::int64_t> rows) const;
  CheckpointInfo checkpoint_info(std::int64_t completed_steps) const;
  SaveOptions save_options();
  void save_ended(const SaveResult& result);
  void report_save(const SaveResult& result);
  void warn_about_metrics(const std::string& reason);

  const Config& config_;
  const RunSetup& setup_;
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<StoppableFileLayer> files_;
  std::unique_ptr<MetricsFile> metrics_file_;
  /// Before the newest checkpoint is looked for; only the first process of a run that saves has it.
  std::unique_ptr<RunLock> lock_;
  StartPoint start_;
  std::size_t devices_loaded_ = 0;
  std::unique_ptr<BatchProvider> training_;
  std::string training_data_;
  std::shared_ptr<Dataset> evaluation_data_;
  std::unique_ptr<BatchProvider> evaluation_;
  std::int64_t evaluation_number_ = -1;
  std::unique_ptr<ProgressBar> progress_;
  /// Noted from the end of the constructor on: while text is tokenised, a signal simply ends the process.
  std::optional<StopSignal> stop_signal_;
  std::mutex mutex_;
  std::condition_variable save_changed_;
  std::vector<DeviceState> contributed_;
  bool saving_ = false;
  bool giving_up_ = false;
  std::string save_error_;
  bool metrics_failed_ = false;
  SaveAgreement agreement_;
  std::unique_ptr<AsyncCheckpointer> checkpointer_;  // last: its destructor waits for a thread that uses the others
};

}  // namespace maxtext
