#include "base/available_memory.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

namespace maxtext {
namespace {

namespace fs = std::filesystem;
using Bytes = std::optional<std::int64_t>;

Bytes lesser(Bytes a, Bytes b) { return a && b ? std::min(*a, *b) : (a ? a : b); }

/// The number after `name` in a file of names and numbers.
Bytes number_of(const fs::path& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    std::int64_t number = 0;
    if (word == name && file >> number) return number;
  }
  return std::nullopt;
}

Bytes available_on_the_machine(const fs::path& root) {
  constexpr std::int64_t kKibibyte = 1024;
  const Bytes kibibytes = number_of(root / "proc/meminfo", "MemAvailable:");
  return kibibytes ? Bytes(*kibibytes * kKibibyte) : std::nullopt;
}

Bytes left_by(const fs::path& group) {
  std::int64_t limit = 0;
  if (!(std::ifstream(group / "memory.max") >> limit)) return std::nullopt;  // none, or "max"
  const Bytes used = number_of(group / "memory.stat", "anon");
  return std::max<std::int64_t>(0, limit - used.value_or(0));
}

/// "/user.slice/..." from the line "0::/user.slice/..."; within a container "/", its own being the top.
fs::path own_group(const fs::path& root) {
  constexpr std::string_view kVersion2 = "0::";
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kVersion2)) return line.substr(kVersion2.size());
  }
  return {};
}

Bytes left_by_control_groups(const fs::path& root) {
  fs::path group = root / "sys/fs/cgroup";
  Bytes least = left_by(group);
  for (const fs::path& part : own_group(root).relative_path()) {
    group /= part;
    least = lesser(least, left_by(group));
  }
  return least;
}

}  // namespace

std::optional<std::int64_t> available_memory(const fs::path& root) {
  return lesser(available_on_the_machine(root), left_by_control_groups(root));
}

}  // namespace maxtext
