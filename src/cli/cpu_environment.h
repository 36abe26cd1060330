// The cpu engine for commands that run on device threads.
#pragma once

#include "config/config.h"
#include "inference/device_set.h"

namespace maxtext {

/// Engines with threads_per_device threads; `few_rows` for decoding (CpuEngineOptions::fast_few_rows).
DecodeEnvironment cpu_environment(const Config& config, bool few_rows);

}  // namespace maxtext
