// The engine that a configuration chooses, for commands that run a model.
#pragma once

#include <functional>
#include <memory>

#include "config/config.h"
#include "inference/device_set.h"
#include "mesh/communicator.h"
#include "ops/engine.h"

namespace maxtext {

/// Makes the engine of a device, on the calling thread with `threads` cores.
using MakeEngine = std::function<std::unique_ptr<Engine>(Communicator& communicator, int threads)>;

/// The engines of all `devices` of a mesh, as `engine` and `hardware` say. `few_rows` is for decoding
/// (CpuEngineOptions::fast_few_rows). The xla engine's plugin is opened here, before any thread is bound to cores,
/// since the plugin's own threads would be bound with it; a line in the log says which it is. Throws ConfigError where
/// there is none, or where it has fewer devices.
MakeEngine engine_maker(const Config& config, int devices, bool few_rows);

/// The same with threads_per_device.
DecodeEnvironment engine_environment(const Config& config, int devices, bool few_rows);

}  // namespace maxtext
