// The devices of this process, each with its thread, its cores and its engine.
#pragma once

#include <functional>

#include "mesh/transport.h"
#include "ops/engine.h"

namespace maxtext {

struct DecodeEnvironment {
  /// The engine of a device with that many threads.
  std::function<std::unique_ptr<Engine>(Communicator& communicator, int threads)> make_engine;
  /// Threads of each device; 0 deals the cores.
  int threads_per_device = 0;
};

/// Runs `program` on every local device of `transport` and returns when all have ended; what one throws ends them all.
void run_on_devices(Transport& transport, const DecodeEnvironment& environment,
                    const std::function<void(Engine& engine)>& program);

}  // namespace maxtext
