// The names of files and folders in a run directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/column_block.h"

namespace maxtext {

inline constexpr std::string_view kItems = "items";
inline constexpr std::string_view kManifest = "manifest.json";
inline constexpr std::string_view kMarker = "COMMITTED";

/// <run_directory>/checkpoints.
std::filesystem::path checkpoints_directory(const std::filesystem::path& run_directory);

/// <step>.tmp, where a save writes, and <step>.trash, from where an old checkpoint is removed.
std::filesystem::path temporary_directory(const std::filesystem::path& run_directory, std::int64_t step);
std::filesystem::path trash_directory(const std::filesystem::path& run_directory, std::int64_t step);

/// The step of a folder named "120" or, with its suffix, "120.tmp"; nothing for any other name.
std::optional<std::int64_t> parse_step(std::string_view folder, std::string_view suffix = "");

/// "weights-00002-of-00004.safetensors".
std::string range_file_name(std::string_view kind, int device, int device_count);

/// How a range of a tensor of this shape is called in a file: its name when it is the whole tensor, else
/// "name@first+count", which ":begin+columns" follows unless its block (an explicit one) has all columns.
std::string range_entry_name(std::string_view name, const BlockRange& range, const Shape& shape);

struct RangeEntry {
  std::string name;
  std::int64_t first = 0;
  std::optional<std::int64_t> count;  // nothing: the whole tensor
  ColumnBlock block;
};

/// The inverse; nothing when what follows '@' is neither "first+count" nor "first+count:begin+columns", or has no
/// columns.
std::optional<RangeEntry> parse_range_entry(std::string_view entry);

}  // namespace maxtext
