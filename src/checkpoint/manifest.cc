#include "checkpoint/manifest.h"

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/json_text.h"
#include "checkpoint/coverage.h"

namespace maxtext {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "maxtext.cpp checkpoint";
constexpr int kFormatVersion = 1;
constexpr int kVersionWithBlocks = 2;

/// The member of an object, as T.
template <typename T = json>
T member(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end()) fail("'{}' is missing", key);
  try {
    return found->get<T>();
  } catch (const json::exception&) {
    fail("'{}' is {}, of another type than expected", key, found->dump());
  }
}

json to_json(const TensorSpec& spec) { return {{"dtype", dtype_name(spec.dtype)}, {"shape", spec.shape}}; }

TensorSpec spec_from(const json& value) {
  return {member<Shape>(value, "shape"), parse_dtype(member<std::string>(value, "dtype"))};
}

json to_json(const FileRecord& file) {
  return {{"name", file.name}, {"kind", file.kind}, {"bytes", file.bytes}, {"xxh64", file.checksum}};
}

FileRecord file_from(const json& value) {
  FileRecord file{member<std::string>(value, "name"),
                  member<std::string>(value, "kind"),
                  member<std::int64_t>(value, "bytes"),
                  member<std::string>(value, "xxh64"),
                  {}};
  if (std::filesystem::path(file.name).filename() != file.name) fail("'{}' is not a file name", file.name);
  return file;
}

json to_json(const StoredRange& range) {
  json value = to_json(range.spec);
  value.update({{"name", range.name},
                {"first", range.range.first},
                {"count", range.range.count},
                {"first_column", range.range.block.begin},
                {"columns", range.range.block.count}});
  return value;
}

StoredRange range_from(const json& value) {
  const ColumnBlock block{member<std::int64_t>(value, "first_column"), member<std::int64_t>(value, "columns")};
  return {member<std::string>(value, "name"),
          spec_from(value),
          {block, member<std::int64_t>(value, "first"), member<std::int64_t>(value, "count")}};
}

bool is_of_a_block(const StoredRange& stored) { return stored.range.block != all_columns(stored.spec.shape); }

int format_version(const Manifest& manifest) {
  const bool blocks = std::ranges::any_of(
      manifest.files, [](const FileRecord& file) { return std::ranges::any_of(file.ranges, is_of_a_block); });
  return blocks ? kVersionWithBlocks : kFormatVersion;
}

/// Runs `parse` on the JSON in `path`; whatever goes wrong is an Error that names the file.
template <typename Parse>
auto parse_file(const std::filesystem::path& path, Parse parse) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail("{}: cannot be opened", path.string());
  try {
    return parse(json::parse(stream));
  } catch (const json::exception& error) {
    fail("{}: corrupt: {}", path.string(), why_not_json(error));
  } catch (const Error& error) {
    fail("{}: corrupt: {}", path.string(), error.what());
  }
}

}  // namespace

Manifest make_manifest(const CheckpointInfo& info, std::vector<FileRecord> files) {
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  Manifest manifest{info, {}, std::move(files)};
  std::map<std::pair<std::string, std::string>, std::vector<BlockRange>> ranges;
  std::string_view previous_name;
  for (const FileRecord& file : manifest.files) {
    if (file.name == previous_name) fail("two devices wrote the same file {}", file.name);
    previous_name = file.name;
    for (const StoredRange& range : file.ranges) {
      const auto [known, added] = manifest.tensors[file.kind].emplace(range.name, range.spec);
      if (known->second != range.spec) {
        fail("{} '{}': one owner says {}, another {}", file.kind, range.name, to_string(known->second),
             to_string(range.spec));
      }
      ranges[{file.kind, range.name}].push_back(range.range);
    }
  }
  for (const auto& [tensor, its_ranges] : ranges) {
    const auto& [kind, name] = tensor;
    check_coverage(kind, name, manifest.tensors[kind][name].shape, its_ranges);
  }
  return manifest;
}

std::string to_text(const Manifest& manifest) {
  json tensors = json::object();
  for (const auto& [kind, specs] : manifest.tensors) {
    for (const auto& [name, spec] : specs) tensors[kind][name] = to_json(spec);
  }
  json files = json::array();
  for (const FileRecord& file : manifest.files) files.push_back(to_json(file));
  const CheckpointInfo& info = manifest.info;
  return json{{"format", kFormat},
              {"format_version", format_version(manifest)},
              {"step", info.step},
              {"cursor", info.cursor},
              {"trainer", info.trainer},
              {"config", info.config},
              {"hf_config", info.hf_config},
              {"tensors", tensors},
              {"files", files}}
      .dump(1);
}

Manifest read_manifest(const std::filesystem::path& path) {
  return parse_file(path, [](const json& value) {
    const json format = member(value, "format");
    if (format != kFormat) fail("its format is {}, not '{}'", format.dump(), kFormat);
    const json version = member(value, "format_version");
    if (version != kFormatVersion && version != kVersionWithBlocks) {
      fail("its format version is {}, this program reads {} to {}", version.dump(), kFormatVersion, kVersionWithBlocks);
    }
    Manifest manifest;
    manifest.info = {member<std::int64_t>(value, "step"), member(value, "cursor"), member(value, "trainer"),
                     member(value, "config"), member(value, "hf_config")};
    const json tensors = member(value, "tensors");
    for (const auto& [kind, specs] : tensors.items()) {
      for (const auto& [name, spec] : specs.items()) manifest.tensors[kind].emplace(name, spec_from(spec));
    }
    for (const json& file : member(value, "files")) manifest.files.push_back(file_from(file));
    return manifest;
  });
}

std::string records_to_text(std::span<const FileRecord> files) {
  json records = json::array();
  for (const FileRecord& file : files) {
    json record = to_json(file);
    record["ranges"] = json::array();
    for (const StoredRange& range : file.ranges) record["ranges"].push_back(to_json(range));
    records.push_back(record);
  }
  return records.dump();
}

std::vector<FileRecord> read_records(const std::filesystem::path& path) {
  return parse_file(path, [](const json& value) {
    std::vector<FileRecord> files;
    for (const json& record : value) {
      files.push_back(file_from(record));
      for (const json& range : member(record, "ranges")) files.back().ranges.push_back(range_from(range));
    }
    return files;
  });
}

}  // namespace maxtext
