#include "data/integer_array.h"

#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"

namespace maxtext {
namespace {

struct TypeInfo {
  IntegerType type;
  std::string_view name;
  std::string_view npy;
  std::int64_t size;
};

constexpr std::array<TypeInfo, 5> kTypes = {{{IntegerType::uint16, "uint16", "<u2", 2},
                                             {IntegerType::uint32, "uint32", "<u4", 4},
                                             {IntegerType::int32, "int32", "<i4", 4},
                                             {IntegerType::uint64, "uint64", "<u8", 8},
                                             {IntegerType::int64, "int64", "<i8", 8}}};

const TypeInfo& info(IntegerType type) { return kTypes[static_cast<std::size_t>(type)]; }

template <typename T>
T load(const std::byte* data, std::int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
void convert(const std::byte* data, std::int64_t first, std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const T value = load<T>(data, first + static_cast<std::int64_t>(i));
    out[i] = std::in_range<std::int32_t>(value) ? static_cast<std::int32_t>(value) : -1;
  }
}

/// The text after `'key':` in the header's dictionary, without leading spaces.
std::string_view field(std::string_view header, std::string_view key, const std::string& file) {
  const std::size_t place = header.find(fmt::format("'{}':", key));
  if (place == std::string_view::npos) fail("{}: .npy header has no '{}'", file, key);
  header.remove_prefix(place + key.size() + 3);
  return header.substr(std::min(header.find_first_not_of(' '), header.size()));
}

IntegerType npy_type(std::string_view header, const std::string& file) {
  std::string_view text = field(header, "descr", file);
  text = text.substr(0, text.find(','));
  for (const TypeInfo& item : kTypes) {
    if (text == fmt::format("'{}'", item.npy)) return item.type;
  }
  fail("{}: expected an array of uint16, uint32, int32, uint64 or int64, found dtype {}", file, text);
}

std::int64_t npy_length(std::string_view header, const std::string& file) {
  std::string_view text = field(header, "shape", file);
  text = text.substr(0, text.find(')') + 1);
  std::int64_t length = -1;
  if (text.starts_with('(')) {
    const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), length);
    if (error == std::errc() && length >= 0 && std::string_view(end, text.data() + text.size()) == ",)") return length;
  }
  fail("{}: expected an array of one dimension, found shape {}", file, text);
}

}  // namespace

std::int64_t integer_size(IntegerType type) { return info(type).size; }
std::string_view integer_type_name(IntegerType type) { return info(type).name; }

IntegerType parse_integer_type(std::string_view name) {
  for (const TypeInfo& item : kTypes) {
    if (item.name == name) return item.type;
  }
  fail_config("token_file_dtype: expected uint16, uint32, int32, uint64 or int64, got '{}'", name);
}

IntegerArray::IntegerArray(std::filesystem::path path, MappedFile file, std::int64_t offset, IntegerType type,
                           std::int64_t size)
    : path_(std::move(path)), file_(std::move(file)), data_(file_->bytes().data() + offset), type_(type), size_(size) {}

IntegerArray IntegerArray::open_raw(const std::filesystem::path& path, IntegerType type) {
  MappedFile file(path);
  const std::int64_t bytes = std::ssize(file.bytes());
  if (bytes % integer_size(type) != 0) {
    fail("{}: {} bytes are not a whole number of {} elements; truncated, or another type?", path.string(), bytes,
         integer_type_name(type));
  }
  return IntegerArray(path, std::move(file), 0, type, bytes / integer_size(type));
}

IntegerArray IntegerArray::open_npy(const std::filesystem::path& path) {
  const std::string name = path.string();
  MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (text.size() < 12 || !text.starts_with("\x93NUMPY")) fail("{}: not a .npy file", name);
  const int version = text[6];
  if (version < 1 || version > 3) fail("{}: .npy format version {} is not known", name, version);
  const std::int64_t start = version == 1 ? 10 : 12;
  const std::int64_t header_size =
      version == 1 ? load<std::uint16_t>(file.bytes().data() + 8, 0) : load<std::uint32_t>(file.bytes().data() + 8, 0);
  if (start + header_size > std::ssize(text)) fail("{}: truncated within its .npy header", name);
  const auto header = text.substr(static_cast<std::size_t>(start), static_cast<std::size_t>(header_size));
  const IntegerType type = npy_type(header, name);
  const std::int64_t length = npy_length(header, name);
  const std::int64_t found = std::ssize(text) - start - header_size;
  if (length > std::numeric_limits<std::int64_t>::max() / 8 || found != length * integer_size(type)) {
    fail("{}: expected {} elements of {}, found {} bytes of data; truncated?", name, length, integer_type_name(type),
         found);
  }
  return IntegerArray(path, std::move(file), start + header_size, type, length);
}

IntegerArray IntegerArray::single_zero() {
  static constexpr std::array<std::byte, 8> kZero{};
  IntegerArray array;
  array.data_ = kZero.data();
  array.type_ = IntegerType::uint64;
  array.size_ = 1;
  return array;
}

std::int64_t IntegerArray::at(std::int64_t index) const {
  switch (type_) {
    case IntegerType::uint16:
      return load<std::uint16_t>(data_, index);
    case IntegerType::uint32:
      return load<std::uint32_t>(data_, index);
    case IntegerType::int32:
      return load<std::int32_t>(data_, index);
    case IntegerType::uint64:
      return static_cast<std::int64_t>(load<std::uint64_t>(data_, index));
    case IntegerType::int64:
      return load<std::int64_t>(data_, index);
  }
  return 0;
}

void IntegerArray::copy(std::int64_t first, std::span<std::int32_t> out) const {
  switch (type_) {
    case IntegerType::uint16:
      return convert<std::uint16_t>(data_, first, out);
    case IntegerType::uint32:
      return convert<std::uint32_t>(data_, first, out);
    case IntegerType::int32:
      return convert<std::int32_t>(data_, first, out);
    case IntegerType::uint64:
      return convert<std::uint64_t>(data_, first, out);
    case IntegerType::int64:
      return convert<std::int64_t>(data_, first, out);
  }
}

}  // namespace maxtext
