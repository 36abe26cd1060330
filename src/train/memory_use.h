// Resident memory of this process, as the kernel counts it.
#pragma once

#include <cstdint>

namespace maxtext {

/// Largest resident set so far, in bytes: VmHWM of /proc/self/status, or ru_maxrss of getrusage where there is no
/// /proc. All local devices share it. 0 when neither can be read.
std::int64_t peak_resident_bytes();

/// Resident set now, in bytes: VmRSS of /proc/self/status, or 0 where there is no /proc.
std::int64_t resident_bytes();

}  // namespace maxtext
