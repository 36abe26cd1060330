// A model with its cache on a mesh of device threads, and what device 0 computes with it.
#pragma once

#include <functional>
#include <memory>

#include "checkpoint/weight_source.h"
#include "inference/cached_model.h"
#include "mesh/communicator.h"

namespace maxtext::testing {

struct DeviceRunOptions {
  CachedModelOptions model;
  int devices = 1;  ///< along the context axis: the cache's positions are shared
  int tensor = 1;   ///< along the tensor axes: the heads are
  int threads = 1;
  /// The kernels with which `decode` multiplies few rows; without, those of training.
  bool fast_few_rows = true;
  /// Instead of a CpuEngine with these.
  std::function<std::unique_ptr<Engine>(Communicator& communicator)> make_engine;
};

/// Runs `program` on every device, each with a model of its own over the same weights; `device` is its number.
void run_cached_model(const ModelShape& shape, const WeightSource& weights, const DeviceRunOptions& options,
                      const std::function<void(CachedModel& model, int device)>& program);

}  // namespace maxtext::testing
