// What manifest.json says: everything of a checkpoint but the tensors' bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace maxtext {

struct StoredRange {
  std::string name;
  TensorSpec spec;   // of the whole tensor
  BlockRange range;  // its block explicit
};

/// One file as its writer knows it.
struct FileRecord {
  std::string name;
  std::string kind;
  std::int64_t bytes = 0;
  std::string checksum;
  std::vector<StoredRange> ranges;  // known to the writer only; a reader finds them in the file's header
};

using TensorSpecs = std::map<std::string, std::map<std::string, TensorSpec, std::less<>>, std::less<>>;

struct Manifest {
  CheckpointInfo info;
  TensorSpecs tensors;  // by kind, then name
  std::vector<FileRecord> files;
};

/// Puts together the files of all processes. Throws Error that names the tensor when two owners disagree on its spec,
/// or when its ranges overlap or do not cover it.
Manifest make_manifest(const CheckpointInfo& info, std::vector<FileRecord> files);

/// Its format version is 2 when a range is one of a block of columns, which programs of version 1 cannot read, else 1.
std::string to_text(const Manifest& manifest);

/// Throws Error that names the file: not JSON, another format or a newer version, a member missing or of a wrong type.
Manifest read_manifest(const std::filesystem::path& path);

/// How a process tells the coordinator what it wrote.
std::string records_to_text(std::span<const FileRecord> files);
std::vector<FileRecord> read_records(const std::filesystem::path& path);

}  // namespace maxtext
