// The names of files and folders in a run directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

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

/// How the range of a tensor is called in a file: its name when it is the whole tensor, else "name@first+count".
std::string range_entry_name(std::string_view name, std::int64_t first, std::int64_t count, std::int64_t elements);

struct RangeEntry {
  std::string name;
  std::int64_t first = 0;
  std::optional<std::int64_t> count;  // nothing: the whole tensor
};

/// The inverse; nothing when what follows '@' is not "first+count".
std::optional<RangeEntry> parse_range_entry(std::string_view entry);

}  // namespace maxtext
