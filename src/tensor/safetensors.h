// The safetensors format (github.com/huggingface/safetensors): 8 bytes with the header's length, little endian, a JSON
// header {"name": {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {string: string}}, then the
// tensors' bytes, contiguous in that order, without holes. Reading validates all of it before any tensor is seen and is
// as strict as the format's own library; every error names the file, the tensor, what was expected and what was found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/mapped_file.h"
#include "tensor/shape.h"

namespace maxtext {

/// One tensor of an open file; `bytes` lives as long as the SafetensorsFile and need not be aligned to the dtype.
struct SafetensorsEntry {
  std::string name;
  TensorSpec spec;
  std::span<const std::byte> bytes;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

/// A mapped, validated file. Opening reads the header only.
class SafetensorsFile {
 public:
  /// Throws Error for a file that cannot be read or is not valid: truncated, header longer than 100 MB or not JSON,
  /// a dtype outside DType, a negative or overflowing shape, bytes that are not dtype × shape, offsets that overlap,
  /// leave holes or pass the end of the file, a name that occurs twice.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }

  /// The whole file, header too.
  std::span<const std::byte> file_bytes() const { return mapping_.bytes(); }

  /// In the order of their bytes.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }

  bool contains(std::string_view name) const { return index_.contains(name); }

  /// Throws Error that names the file when there is no such tensor.
  const SafetensorsEntry& at(std::string_view name) const;

 private:
  std::filesystem::path path_;
  MappedFile mapping_;
  SafetensorsMetadata metadata_;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

/// The tensors of a Hugging Face directory: `model.safetensors`, or the shards that `model.safetensors.index.json`
/// lists; or of one .safetensors file. Shards are opened (mapped) all at once; data is read when touched.
class SafetensorsSet {
 public:
  /// Throws Error for a missing directory, index or shard, and for a tensor that is not in the shard its index names;
  /// ConfigError for an index that is no object of JSON.
  explicit SafetensorsSet(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }

  /// Sorted.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const { return files_.contains(name); }

  /// Both throw Error that names the directory when there is no such tensor.
  const SafetensorsEntry& at(std::string_view name) const { return file_of(name).at(name); }
  const SafetensorsFile& file_of(std::string_view name) const;

 private:
  void add_file(const std::filesystem::path& file);
  void add_index(const std::filesystem::path& index_path);

  std::filesystem::path path_;
  std::map<std::string, std::shared_ptr<const SafetensorsFile>, std::less<>> files_;
};

/// The elements of a tensor of any dtype as floats; throws Error when there is no such tensor.
std::vector<float> read_as_float(const SafetensorsFile& file, std::string_view name);
std::vector<float> read_as_float(const SafetensorsSet& set, std::string_view name);

/// The elements of an int32, int64, uint8 or bool tensor; throws Error for a floating-point one.
std::vector<std::int64_t> read_as_int64(const SafetensorsFile& file, std::string_view name);

struct NamedSpec {
  std::string name;
  TensorSpec spec;
};

/// The first bytes of a file whose tensors follow in the given order: length, JSON, spaces up to a multiple of 8.
/// A writer that streams appends each tensor's bytes after it. Throws Error when a name occurs twice.
std::string safetensors_header(std::span<const NamedSpec> tensors, const SafetensorsMetadata& metadata = {});

struct NamedBytes {
  std::string name;
  TensorSpec spec;
  std::span<const std::byte> bytes;
};

/// Writes a whole file, wide dtypes first so that every tensor is aligned. Throws Error when bytes and spec disagree
/// or the file cannot be written. Neither atomic nor synced to disk: checkpoints have their own writer.
void write_safetensors(const std::filesystem::path& path, std::span<const NamedBytes> tensors,
                       const SafetensorsMetadata& metadata = {});

/// The format's name of a dtype: "F32", "F64", "BF16", "F16", "I32", "I64", "U8", "BOOL", "I8".
std::string_view safetensors_dtype_name(DType dtype);

}  // namespace maxtext
