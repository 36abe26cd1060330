// Memory that this process may still take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace maxtext {

/// In bytes: the least of what the machine has without swapping (MemAvailable of /proc/meminfo) and of what the limits
/// of this process's control groups leave (version 2). Pages of files count as free in both, as they give way: mapped
/// weights may lie in them already. Nothing where neither can be read. `root` is the folder of `proc` and `sys`.
std::optional<std::int64_t> available_memory(const std::filesystem::path& root = "/");

}  // namespace maxtext
