// A file mapped read-only into memory: opening costs no reads, pages come as they are touched and can be dropped.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace maxtext {

class MappedFile {
 public:
  /// Throws Error with the path and the system's reason.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace maxtext
