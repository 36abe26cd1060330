// Generation on the devices of this process.
#pragma once

#include "inference/decode_setup.h"
#include "inference/device_set.h"

namespace maxtext {

struct DecodeReport {
  TextOutcome outcome;
  double load_seconds = 0;  ///< from the call to a model that is ready
  std::int64_t weight_bytes = 0;
  /// Of the weights that a step reads, once, however many devices read them.
  std::int64_t weight_bytes_per_step = 0;
  std::int64_t cache_bytes = 0;  ///< of all devices, at the end
  /// Of the process until here, mapped weights included: what a caller does afterwards is not in it.
  std::int64_t peak_resident_bytes = 0;
};

/// Answers all requests of `setup`. The listener is called on one device's thread.
DecodeReport decode(const DecodeSetup& setup, const DecodeEnvironment& environment, const TextListener& listener);

}  // namespace maxtext
