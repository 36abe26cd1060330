// What a compiled program tells of itself, loaded on devices or not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "engines/xla/compile_options.h"
#include "engines/xla/pjrt/api.h"
#include "engines/xla/pjrt_topology.h"

namespace maxtext::pjrt {

/// The text as the C interface takes it. Refers to `module_text`, which has to outlive it.
PJRT_Program program_of(const std::string& module_text);

/// The program that is loaded.
Handle<PJRT_Executable> executable_of(const PJRT_Api* api, PJRT_LoadedExecutable* loaded);

std::size_t result_count(const PJRT_Api* api, PJRT_Executable* executable);
CompiledMemory memory_of(const PJRT_Api* api, PJRT_Executable* executable);
OptimizedProgram optimized(const PJRT_Api* api, PJRT_Executable* executable);
std::string serialize(const PJRT_Api* api, const PJRT_Executable* executable);

/// Throws ConfigError where there are fewer devices than replicas.
void check_device_count(const XlaCompileOptions& options, std::size_t devices);

}  // namespace maxtext::pjrt
