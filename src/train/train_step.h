// One training step on one device: micro-batches, reduction, clipping, update, and the numbers a step reports.
#pragma once

#include <functional>
#include <vector>

#include "model/decoder.h"
#include "train/optimizer.h"

namespace maxtext {

/// What a step found out, the same on every device.
struct StepOutput {
  /// (Σ weight·nll + Σ weight·z) / (Σ weight + 1e-8) over all devices and micro-batches (MaxText's loss).
  double loss = 0;
  double gradient_norm = 0;
  /// Of each parameter's gradient, in layout order.
  std::vector<double> gradient_sums_of_squares;
  /// Whether the flag given to `run` was true on any device.
  bool flag = false;
};

class TrainStep {
 public:
  TrainStep(Decoder& decoder, ParameterShards& parameters, Optimizer& optimizer)
      : decoder_(decoder), parameters_(parameters), optimizer_(optimizer) {}

  /// `micro_batch(m)` makes the m-th of `micro_batches` inputs when its turn comes. `total_weights` is the sum of
  /// target weights over all of them and all devices, known before the forward pass. `flag` is asked once, after the
  /// last backward pass, and its answer on any device reaches all of them with the step's numbers: so one device can
  /// ask all to stop after the step that it is in. `before_update` runs before parameters change.
  StepOutput run(std::int64_t step, double learning_rate, int micro_batches,
                 const std::function<DeviceBatch(int)>& micro_batch, double total_weights,
                 const std::function<bool()>& flag = {}, const std::function<void()>& before_update = {});

 private:
  Decoder& decoder_;
  ParameterShards& parameters_;
  Optimizer& optimizer_;
};

/// Mean loss of evaluation batches: adds a batch's (Σ weight·nll, Σ weight) over all devices to running sums.
struct EvaluationSums {
  double nll = 0;
  double weights = 0;
  double loss() const { return nll / (weights + 1e-8); }
};

/// Forward of one batch with the training plan; returns Σ weight·nll over all devices.
double evaluate_batch(Decoder& decoder, ParameterShards& parameters, const DeviceBatch& batch);

/// The float64 contents of a small tensor, on the host; zeros from an engine without data.
std::vector<double> read_doubles(Engine& engine, const Tensor& tensor);

}  // namespace maxtext
