#include "testing/temporary_directory.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/error.h"

namespace maxtext::testing {

TemporaryDirectory::TemporaryDirectory() : TemporaryDirectory(std::filesystem::temp_directory_path()) {}

TemporaryDirectory TemporaryDirectory::in_memory() {
  const std::filesystem::path memory = "/dev/shm";
  return TemporaryDirectory(std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path());
}

TemporaryDirectory::TemporaryDirectory(const std::filesystem::path& parent) {
  std::string pattern = (parent / "maxtext_test_XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) fail("cannot create a temporary directory {}", pattern);
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail("{}: cannot be opened", path.string());
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

void write_file(const std::filesystem::path& path, const std::string& contents) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << contents;
  stream.close();
  if (!stream) fail("{}: cannot be written", path.string());
}

}  // namespace maxtext::testing
