// The training program of one device, on its own thread.
#pragma once

#include <exception>
#include <span>

#include "train/train_process.h"
#include "train/train_step.h"
#include "train/trainer.h"

namespace maxtext {

class DeviceTrainer {
 public:
  DeviceTrainer(TrainProcess& process, Engine& engine);
  /// Waits until no save reads this device's memory.
  ~DeviceTrainer();
  DeviceTrainer(const DeviceTrainer&) = delete;
  DeviceTrainer& operator=(const DeviceTrainer&) = delete;

  TrainSummary run();

 private:
  void load();
  /// One step; false at the end of the data.
  bool step(std::int64_t index);
  /// Throws Error unless all devices have the same plan and tokens: processes read the data for themselves.
  void check_same_batch(const PlannedBatch& planned);
  void check_finite(std::int64_t index, const StepOutput& output) const;
  void evaluate(const std::string& when, std::int64_t after_step);
  void evaluate_if_due(std::int64_t completed);
  /// Saves what was trained since the last checkpoint, if the run wants that; throws Error if that fails.
  void save_at_end(std::int64_t completed);
  void save(std::int64_t completed);
  void report_end(const TrainSummary& summary);
  /// True when the batch after `index` cannot be read, for which `data_error_` is then the reason: this step is the
  /// last, so that what was trained is saved.
  bool next_batch_fails(std::int64_t index);
  [[noreturn]] void fail_for_data(std::int64_t completed) const;
  /// Each value becomes its maximum over all devices. Between steps only.
  void maximum_over_devices(std::span<float> values);
  /// True on all devices iff `mine` is true on all.
  bool agree(bool mine);
  bool leads() const { return engine_.device() == process_.transport().local_devices().front(); }

  TrainProcess& process_;
  const RunSetup& setup_;
  Engine& engine_;
  ParameterShards parameters_;
  Optimizer optimizer_;
  Decoder decoder_;
  TrainStep train_step_;
  double flops_per_step_;
  double tokens_per_step_;
  std::int64_t evaluations_ = 0;
  std::int64_t evaluated_at_ = -1;
  std::int64_t saved_at_ = -1;
  bool stop_ = false;
  std::exception_ptr data_error_;
  bool noted_no_targets_ = false;
  double last_loss_ = 0;
};

}  // namespace maxtext
