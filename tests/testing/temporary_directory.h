// A directory of its own for a test, removed at the end.
#pragma once

#include <filesystem>
#include <string>

namespace maxtext::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Whole files as strings, for tests that damage them. Both throw Error when the file cannot be read or written.
std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& contents);

}  // namespace maxtext::testing
