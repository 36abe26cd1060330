// Resident memory of this process, as the kernel counts it, and what the machine has left.
#pragma once

#include <cstdint>
#include <optional>

namespace maxtext {

/// Largest resident set so far, in bytes: VmHWM of /proc/self/status, or ru_maxrss of getrusage where there is no
/// /proc. All local devices share it. 0 when neither can be read.
std::int64_t peak_resident_bytes();

/// Resident set now, in bytes: VmRSS of /proc/self/status, or 0 where there is no /proc.
std::int64_t resident_bytes();

/// What programs may still take on this machine without swapping, in bytes: MemAvailable of /proc/meminfo, or nothing
/// where that cannot be read.
std::optional<std::int64_t> available_bytes();

}  // namespace maxtext
