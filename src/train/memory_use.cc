#include "train/memory_use.h"

#include <sys/resource.h>

#include <fstream>
#include <string>
#include <string_view>

namespace maxtext {
namespace {

constexpr std::int64_t kKibibyte = 1024;

/// The value of a "VmHWM:   1234 kB" line in bytes, or 0.
std::int64_t status_bytes(std::string_view field) {
  std::ifstream status("/proc/self/status");
  std::string name;
  std::int64_t kibibytes = 0;
  while (status >> name) {
    if (name == field && status >> kibibytes) return kibibytes * kKibibyte;
    status.ignore(1 << 16, '\n');
  }
  return 0;
}

}  // namespace

std::int64_t peak_resident_bytes() {
  if (const std::int64_t bytes = status_bytes("VmHWM:"); bytes > 0) return bytes;
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<std::int64_t>(usage.ru_maxrss) * kKibibyte : 0;
}

std::int64_t resident_bytes() { return status_bytes("VmRSS:"); }

}  // namespace maxtext
