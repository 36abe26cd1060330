// A whole file, read-only, in the address space. Pages come and go with the page cache, so a file may be far larger
// than memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace maxtext {

class MappedFile {
 public:
  MappedFile() = default;
  /// Maps `path`. Throws Error naming the path and the system's reason. An empty file maps to an empty span.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  void unmap() noexcept;

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace maxtext
