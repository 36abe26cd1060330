#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "inference/decode_setup.h"

namespace maxtext {
namespace {

std::optional<std::int64_t> number_in(const char* path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // absent, or "max"
}

std::optional<std::int64_t> available_on_the_system() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    std::int64_t kibibytes = 0;
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
  }
  return std::nullopt;
}

/// What is used includes the page cache, which gives way: mapped weights may lie in it already.
std::optional<std::int64_t> left_by_the_control_group() {
  const std::optional<std::int64_t> limit = number_in("/sys/fs/cgroup/memory.max");
  if (!limit) return std::nullopt;
  std::int64_t anonymous = 0;
  std::ifstream file("/sys/fs/cgroup/memory.stat");
  for (std::string word; file >> word;) {
    if (word == "anon" && file >> anonymous) break;
  }
  return std::max<std::int64_t>(1, *limit - anonymous);
}

}  // namespace

std::int64_t available_memory() {
  const std::int64_t none = std::numeric_limits<std::int64_t>::max();
  const std::int64_t least =
      std::min(available_on_the_system().value_or(none), left_by_the_control_group().value_or(none));
  return least == none ? 0 : least;
}

}  // namespace maxtext
