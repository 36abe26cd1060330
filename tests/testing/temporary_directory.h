// A directory of its own for a test, removed at the end.
#pragma once

#include <filesystem>
#include <string>

namespace maxtext::testing {

class TemporaryDirectory {
 public:
  /// Below the system's directory for temporary files ($TMPDIR).
  TemporaryDirectory();

  /// In memory (/dev/shm) where there is such a thing: for tests of many small files that sync each.
  static TemporaryDirectory in_memory();

  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryDirectory(const std::filesystem::path& parent);

  std::filesystem::path path_;
};

/// Whole files as strings, for tests that damage them. Both throw Error when the file cannot be read or written.
std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& contents);

}  // namespace maxtext::testing
