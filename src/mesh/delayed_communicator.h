// A network that is slow on purpose: results are those of the communicator inside, only later. It proves that
// communication overlaps computation (a step must take about max(compute, communication), not the sum) and, with
// random delays, that no result depends on timing.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "mesh/communicator.h"

namespace maxtext {

struct DelayOptions {
  /// A collective completes no earlier than this after this device has started it.
  std::chrono::microseconds delay{0};
  /// Draw each collective's delay uniformly from [0, delay], from (seed, device, number of the collective).
  bool random = false;
  std::uint64_t seed = 0;
};

/// Wraps `inner`. Delays run from `start`, so collectives in flight at the same time are late at the same time: the
/// model is latency, not bandwidth. Groups of one are not delayed. Counters and failures are those of `inner`.
std::unique_ptr<Communicator> delayed_communicator(std::unique_ptr<Communicator> inner, DelayOptions options);

}  // namespace maxtext
