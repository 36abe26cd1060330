// A mapped, read-only array of integers of one of the types that token files come in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "tensor/mapped_file.h"

namespace maxtext {

enum class IntegerType { uint16, uint32, int32, uint64, int64 };

std::int64_t integer_size(IntegerType type);
std::string_view integer_type_name(IntegerType type);
/// Throws ConfigError that lists the names.
IntegerType parse_integer_type(std::string_view name);

class IntegerArray {
 public:
  /// A raw little-endian file. Throws Error when its size is not a multiple of the type's.
  static IntegerArray open_raw(const std::filesystem::path& path, IntegerType type);

  /// A one-dimensional little-endian .npy file (numpy.lib.format, versions 1 to 3). Throws Error naming the file for
  /// other element types, more dimensions and truncated files.
  static IntegerArray open_npy(const std::filesystem::path& path);

  /// A single 0: the starts of a file that is one document.
  static IntegerArray single_zero();

  std::int64_t size() const { return size_; }
  IntegerType type() const { return type_; }
  const std::filesystem::path& path() const { return path_; }

  /// The element as a signed number; a uint64 above the signed range comes out negative.
  std::int64_t at(std::int64_t index) const;

  /// Elements [first, first + out.size()), converted to int32; one that does not fit becomes -1.
  void copy(std::int64_t first, std::span<std::int32_t> out) const;

 private:
  IntegerArray() = default;
  IntegerArray(std::filesystem::path path, MappedFile file, std::int64_t offset, IntegerType type, std::int64_t size);

  std::filesystem::path path_;
  std::optional<MappedFile> file_;
  const std::byte* data_ = nullptr;
  IntegerType type_ = IntegerType::uint16;
  std::int64_t size_ = 0;
};

}  // namespace maxtext
