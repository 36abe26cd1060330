// What a compiler has to know of a GPU that is not there.
#pragma once

#include <string>
#include <string_view>

namespace maxtext {

/// XLA's GpuTargetConfigProto as text, the topology option `target_config` of its CUDA plugin. `name`: h100 (80 GB) or
/// h200. Throws ConfigError for others.
std::string gpu_target_config(std::string_view name);

}  // namespace maxtext
