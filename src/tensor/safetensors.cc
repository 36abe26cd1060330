#include "tensor/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/json_text.h"
#include "tensor/half.h"

namespace maxtext {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLargestHeader = 100'000'000;
constexpr std::string_view kMetadataKey = "__metadata__";

struct DTypeName {
  DType dtype;
  std::string_view name;
};
constexpr std::array<DTypeName, 9> kDTypeNames{{{DType::float32, "F32"},
                                                {DType::float64, "F64"},
                                                {DType::bfloat16, "BF16"},
                                                {DType::float16, "F16"},
                                                {DType::int32, "I32"},
                                                {DType::int64, "I64"},
                                                {DType::uint8, "U8"},
                                                {DType::boolean, "BOOL"},
                                                {DType::int8, "I8"}}};

std::optional<DType> find_dtype(std::string_view name) {
  for (const DTypeName& candidate : kDTypeNames) {
    if (candidate.name == name) return candidate.dtype;
  }
  return std::nullopt;
}

/// Parses JSON, and refuses a key that occurs twice in the outermost object (the parser would keep the last silently).
json parse_header(std::string_view text, const std::string& file) {
  std::set<std::string> names;
  std::string repeated;
  const json::parser_callback_t note_names = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1 && !names.insert(parsed.get<std::string>()).second) {
      repeated = parsed.get<std::string>();
    }
    return true;
  };
  json header;
  try {
    header = json::parse(text.begin(), text.end(), note_names);
  } catch (const json::exception& error) {
    fail("{}: the safetensors header is {}", file, why_not_json(error));
  }
  if (!header.is_object()) fail("{}: the safetensors header is a JSON {}, not an object", file, header.type_name());
  if (!repeated.empty()) fail("{}: the tensor '{}' occurs twice in the header", file, repeated);
  return header;
}

std::string_view header_text(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() < kLengthBytes) {
    fail("{}: a safetensors file has at least {} bytes, this one has {}", file, kLengthBytes, bytes.size());
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kLargestHeader) {
    fail("{}: the safetensors header claims {} bytes, at most {} are allowed: not a safetensors file, or corrupt", file,
         length, kLargestHeader);
  }
  if (length > bytes.size() - kLengthBytes) {
    fail("{}: truncated: the header takes {} bytes, but only {} follow its length", file, length,
         bytes.size() - kLengthBytes);
  }
  return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length};
}

SafetensorsMetadata parse_metadata(const json& value, const std::string& file) {
  SafetensorsMetadata metadata;
  if (!value.is_object()) fail("{}: {} is a JSON {}, not an object", file, kMetadataKey, value.type_name());
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) fail("{}: {}['{}'] is {}, not a string", file, kMetadataKey, key, text.dump());
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

/// Reads one tensor of the header; its offsets are relative to the data after the header.
struct Placed {
  std::string name;
  TensorSpec spec;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

const json& member(const json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) fail("{}: '{}' is missing in the header", where, key);
  return *found;
}

std::uint64_t unsigned_number(const json& value, const char* key, const std::string& where) {
  if (!value.is_number_unsigned()) fail("{}: '{}' has {}, not a number >= 0", where, key, value.dump());
  return value.get<std::uint64_t>();
}

/// The bytes of a tensor; checks that they are countable, so that a hostile shape cannot wrap around.
std::uint64_t checked_bytes(const TensorSpec& spec, const std::string& where) {
  std::int64_t bytes = dtype_size(spec.dtype);
  for (const std::int64_t dim : spec.shape) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) {
      fail("{}: {} has more than 2^63 bytes", where, to_string(spec));
    }
  }
  return static_cast<std::uint64_t>(bytes);
}

TensorSpec parse_spec(const json& value, const std::string& where) {
  const json& dtype_json = member(value, "dtype", where);
  const std::optional<DType> dtype = dtype_json.is_string() ? find_dtype(dtype_json.get<std::string>()) : std::nullopt;
  if (!dtype) {
    fail("{}: dtype {} is not supported; F32, F64, BF16, F16, I32, I64, U8, BOOL, I8 are", where, dtype_json.dump());
  }
  const json& shape_json = member(value, "shape", where);
  if (!shape_json.is_array()) fail("{}: 'shape' is {}, not an array", where, shape_json.dump());
  if (shape_json.size() > Shape::kMostDimensions) {
    fail("{}: {} dimensions; at most {} are supported", where, shape_json.size(), Shape::kMostDimensions);
  }
  TensorSpec spec{{}, *dtype};
  for (const json& dim : shape_json) {
    const std::uint64_t size = unsigned_number(dim, "shape", where);
    if (size > static_cast<std::uint64_t>(INT64_MAX)) fail("{}: the dimension {} is too large", where, size);
    spec.shape.push_back(static_cast<std::int64_t>(size));
  }
  return spec;
}

Placed parse_tensor(const std::string& name, const json& value, std::uint64_t data_bytes, const std::string& file) {
  const std::string where = fmt::format("{}: tensor '{}'", file, name);
  if (!value.is_object()) fail("{}: its header entry is a JSON {}, not an object", where, value.type_name());
  Placed placed{name, parse_spec(value, where), 0, 0};
  const json& offsets = member(value, "data_offsets", where);
  if (!offsets.is_array() || offsets.size() != 2) {
    fail("{}: 'data_offsets' is {}, not [begin, end]", where, offsets.dump());
  }
  placed.begin = unsigned_number(offsets[0], "data_offsets", where);
  placed.end = unsigned_number(offsets[1], "data_offsets", where);
  if (placed.begin > placed.end) {
    fail("{}: 'data_offsets' [{}, {}] begin after their end", where, placed.begin, placed.end);
  }
  const std::uint64_t expected = checked_bytes(placed.spec, where);
  if (placed.end - placed.begin != expected) {
    fail("{}: {} takes {} bytes, but 'data_offsets' [{}, {}] span {}", where, to_string(placed.spec), expected,
         placed.begin, placed.end, placed.end - placed.begin);
  }
  if (placed.end > data_bytes) {
    fail("{}: truncated: its bytes end at {}, but the file has only {} bytes of data", where, placed.end, data_bytes);
  }
  return placed;
}

/// The tensors' bytes must follow each other from 0 to the end of the file.
void check_contiguous(const std::vector<Placed>& tensors, std::uint64_t data_bytes, const std::string& file) {
  std::uint64_t next = 0;
  for (const Placed& tensor : tensors) {
    if (tensor.begin != next) {
      fail("{}: tensor '{}': its bytes begin at {}, expected {}: they {} those before it", file, tensor.name,
           tensor.begin, next, tensor.begin < next ? "overlap" : "leave a hole after");
    }
    next = tensor.end;
  }
  if (next != data_bytes) {
    fail("{}: the tensors take {} bytes, but the file has {} bytes of data", file, next, data_bytes);
  }
}

template <typename Stored>
std::vector<std::int64_t> widen(const SafetensorsEntry& entry) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(entry.spec.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, entry.bytes.data() + i * sizeof(Stored), sizeof(Stored));
    values[i] = stored;
  }
  return values;
}

std::vector<float> as_floats(const SafetensorsEntry& entry) {
  std::vector<float> values(static_cast<std::size_t>(entry.spec.elements()));
  convert_to_float(entry.bytes, entry.spec.dtype, values);
  return values;
}

}  // namespace

std::string_view safetensors_dtype_name(DType dtype) {
  for (const DTypeName& candidate : kDTypeNames) {
    if (candidate.dtype == dtype) return candidate.name;
  }
  fail("unknown dtype {}", static_cast<int>(dtype));
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path), mapping_(path) {
  const std::string file = path.string();
  const std::string_view text = header_text(mapping_.bytes(), file);
  const json header = parse_header(text, file);
  const std::span<const std::byte> data = mapping_.bytes().subspan(kLengthBytes + text.size());
  std::vector<Placed> placed;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadataKey) {
      metadata_ = parse_metadata(value, file);
    } else {
      placed.push_back(parse_tensor(name, value, data.size(), file));
    }
  }
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_contiguous(placed, data.size(), file);
  for (Placed& tensor : placed) {
    index_.emplace(tensor.name, entries_.size());
    entries_.push_back({std::move(tensor.name), tensor.spec, data.subspan(tensor.begin, tensor.end - tensor.begin)});
  }
}

const SafetensorsEntry& SafetensorsFile::at(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) fail("{}: there is no tensor '{}' among its {}", path_.string(), name, entries_.size());
  return entries_[found->second];
}

SafetensorsSet::SafetensorsSet(const std::filesystem::path& path) : path_(path) {
  namespace fs = std::filesystem;
  const fs::path single = path / "model.safetensors";
  const fs::path index = path / "model.safetensors.index.json";
  if (fs::is_regular_file(path)) {
    add_file(path);
  } else if (!fs::is_directory(path)) {
    fail("{}: expected a .safetensors file or a directory with model.safetensors, found nothing", path.string());
  } else if (fs::exists(single)) {
    add_file(single);
  } else if (fs::exists(index)) {
    add_index(index);
  } else {
    fail("{}: neither model.safetensors nor model.safetensors.index.json is in this directory", path.string());
  }
}

void SafetensorsSet::add_file(const std::filesystem::path& file) {
  const auto opened = std::make_shared<const SafetensorsFile>(file);
  for (const SafetensorsEntry& entry : opened->entries()) files_.emplace(entry.name, opened);
}

void SafetensorsSet::add_index(const std::filesystem::path& index_path) {
  const json index = read_json_object(index_path);
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) fail("{}: the object 'weight_map' is missing", index_path.string());
  std::map<std::string, std::shared_ptr<const SafetensorsFile>> opened;
  for (const auto& [name, shard] : map->items()) {
    const std::string shard_name = shard.is_string() ? shard.get<std::string>() : std::string();
    if (shard_name.empty() || std::filesystem::path(shard_name).filename() != shard_name) {
      fail("{}: tensor '{}': {} is not the name of a file in this directory", index_path.string(), name, shard.dump());
    }
    std::shared_ptr<const SafetensorsFile>& file = opened[shard_name];
    if (!file) file = std::make_shared<const SafetensorsFile>(path_ / shard_name);
    if (!file->contains(name)) {
      fail("{}: tensor '{}': expected in {}, which does not have it", index_path.string(), name, shard_name);
    }
    files_.emplace(name, file);
  }
}

std::vector<std::string> SafetensorsSet::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : files_) names.push_back(name);
  return names;
}

const SafetensorsFile& SafetensorsSet::file_of(std::string_view name) const {
  const auto found = files_.find(name);
  if (found == files_.end()) fail("{}: there is no tensor '{}' among its {}", path_.string(), name, files_.size());
  return *found->second;
}

std::vector<float> read_as_float(const SafetensorsFile& file, std::string_view name) {
  return as_floats(file.at(name));
}

std::vector<float> read_as_float(const SafetensorsSet& set, std::string_view name) { return as_floats(set.at(name)); }

std::vector<std::int64_t> read_as_int64(const SafetensorsFile& file, std::string_view name) {
  const SafetensorsEntry& entry = file.at(name);
  switch (entry.spec.dtype) {
    case DType::int32:
      return widen<std::int32_t>(entry);
    case DType::int64:
      return widen<std::int64_t>(entry);
    case DType::uint8:
    case DType::boolean:
      return widen<std::uint8_t>(entry);
    case DType::int8:
      return widen<std::int8_t>(entry);
    default:
      fail("{}: tensor '{}': expected integers, found {}", file.path().string(), name, to_string(entry.spec));
  }
}

std::string safetensors_header(std::span<const NamedSpec> tensors, const SafetensorsMetadata& metadata) {
  // Built by hand in the order of the bytes, which is how other readers expect to meet the names.
  std::string text = "{";
  if (!metadata.empty()) text += fmt::format("{}:{}", json(kMetadataKey).dump(), json(metadata).dump());
  std::set<std::string_view> names;
  std::int64_t offset = 0;
  for (const auto& [name, spec] : tensors) {
    if (!names.insert(name).second || name == kMetadataKey) fail("the tensor name '{}' cannot be written twice", name);
    const json entry{{"dtype", safetensors_dtype_name(spec.dtype)},
                     {"shape", spec.shape},
                     {"data_offsets", {offset, offset + spec.bytes()}}};
    text += fmt::format("{}{}:{}", text.size() > 1 ? "," : "", json(name).dump(), entry.dump());
    offset += spec.bytes();
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  std::string header(kLengthBytes, '\0');
  std::memcpy(header.data(), &length, kLengthBytes);
  return header + text;
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedBytes> tensors,
                       const SafetensorsMetadata& metadata) {
  std::vector<NamedBytes> ordered(tensors.begin(), tensors.end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const NamedBytes& a, const NamedBytes& b) {
    return dtype_size(a.spec.dtype) > dtype_size(b.spec.dtype);
  });
  std::vector<NamedSpec> specs;
  for (const NamedBytes& tensor : ordered) {
    if (static_cast<std::int64_t>(tensor.bytes.size()) != tensor.spec.bytes()) {
      fail("{}: tensor '{}': {} takes {} bytes, but {} were given", path.string(), tensor.name, to_string(tensor.spec),
           tensor.spec.bytes(), tensor.bytes.size());
    }
    specs.push_back({tensor.name, tensor.spec});
  }
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << safetensors_header(specs, metadata);
  for (const NamedBytes& tensor : ordered) {
    stream.write(reinterpret_cast<const char*>(tensor.bytes.data()), static_cast<std::streamsize>(tensor.bytes.size()));
  }
  stream.close();
  if (!stream) fail("{}: cannot be written", path.string());
}

}  // namespace maxtext
