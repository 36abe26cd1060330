// A model of random weights that decodes, for measuring: on one device, or on several that share its KV cache.
#pragma once

#include <memory>
#include <vector>

#include "cli/bench/device_threads.h"
#include "config/model_shape.h"
#include "engines/cpu/cpu_engine.h"
#include "inference/cached_model.h"
#include "mesh/thread_transport.h"

namespace maxtext::bench {

struct DecodeCase {
  DType weights = DType::float32;
  DType cache = DType::float32;
  std::int64_t batch = 1;
  int steps = 0;  // of one timing
};

/// One device's part; made and used on the device's thread.
class DecodedModel {
 public:
  DecodedModel(std::unique_ptr<Communicator> communicator, const ModelShape& shape, const DecodeCase& sizes,
               std::int64_t max_length, int threads);

  /// Every sequence has `length` positions in the cache when a step begins.
  void set_context(std::int64_t length);

  /// Steps per second of sizes.steps steps.
  double measure_steps();

  /// Bytes that a step reads at least on one device: the weights, and keys and values of the context.
  double bytes_per_step() const;
  double weight_bytes() const { return static_cast<double>(weights_.bytes_per_step()); }

  /// Seconds to read a prompt of `tokens`.
  double measure_prompt(std::int64_t tokens);

 private:
  DecodeCase sizes_;
  std::unique_ptr<Communicator> communicator_;
  CpuEngine engine_;
  InferenceWeights weights_;
  CachedModel model_;
  std::int64_t context_ = 0;
};

/// The same model on each of several devices, which deal the cores among them and share the cache's positions.
class SharedModel {
 public:
  SharedModel(int devices, const ModelShape& shape, const DecodeCase& sizes, std::int64_t context);
  ~SharedModel();
  SharedModel(const SharedModel&) = delete;
  SharedModel& operator=(const SharedModel&) = delete;

  double measure_steps();

 private:
  ThreadTransport transport_;
  DeviceThreads threads_;
  std::vector<std::unique_ptr<DecodedModel>> models_;
};

}  // namespace maxtext::bench
