// Training steps of a configuration on synthetic data, one at a time: what a run does, without data files, log and
// checkpoints.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cli/bench/device_threads.h"
#include "config/config.h"
#include "data/row_batch.h"
#include "engines/cpu/cpu_engine.h"
#include "mesh/thread_transport.h"
#include "train/run_setup.h"
#include "train/train_step.h"

namespace maxtext::bench {

class TrainingRun {
 public:
  /// Devices are threads, each on its part of the cores that this process may use (or the first `threads_per_device` of
  /// it), as in training. Sets up weights and moments; no step is done yet.
  explicit TrainingRun(const Config& config);
  ~TrainingRun();

  /// One step on all devices; returns its seconds.
  double step();
  double last_loss() const { return last_loss_; }

  std::int64_t tokens_per_step() const { return batch_.rows * batch_.sequence_length; }
  /// 6 · weights in products · tokens + 3.5 · attention forward: five products in backward where forward has two.
  double flops_per_step() const;
  int devices() const { return threads_.size(); }
  const RunSetup& setup() const { return setup_; }
  const ContextPlan& plan() const { return plan_; }

  /// Peak of live tensors, and physical memory behind them and scratch, over all devices.
  std::int64_t peak_tensor_bytes();
  std::int64_t pooled_bytes();

  /// Does `work` on the thread of device 0 and thus with its OpenMP team.
  void on_first_device(const std::function<void()>& work) { threads_.run_on(0, work); }

 private:
  struct Device;
  std::int64_t sum_over_devices(const std::function<std::int64_t(const Device&)>& value) const;

  RunSetup setup_;
  RowBatch batch_;
  ContextPlan plan_;
  double total_weights_;
  ThreadTransport transport_;
  DeviceThreads threads_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::int64_t steps_ = 0;
  double last_loss_ = 0;
};

}  // namespace maxtext::bench
