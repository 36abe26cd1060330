#include "checkpoint/layout.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checksum.h"

namespace maxtext {
namespace {

constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr std::string_view kTrashSuffix = ".trash";

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size() && !text.empty();
  return whole && number >= 0 ? std::optional(number) : std::nullopt;
}

/// The numbers of "3+4".
std::optional<std::pair<std::int64_t, std::int64_t>> parse_pair(std::string_view text) {
  const std::size_t plus = text.find('+');
  if (plus == std::string_view::npos) return std::nullopt;
  const auto first = parse_number(text.substr(0, plus));
  const auto second = parse_number(text.substr(plus + 1));
  if (!first || !second) return std::nullopt;
  return std::pair(*first, *second);
}

std::optional<std::string> read_small_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
}

}  // namespace

std::filesystem::path checkpoints_directory(const std::filesystem::path& run_directory) {
  return run_directory / "checkpoints";
}

std::filesystem::path step_directory(const std::filesystem::path& run_directory, std::int64_t step) {
  return checkpoints_directory(run_directory) / std::to_string(step);
}

std::filesystem::path temporary_directory(const std::filesystem::path& run_directory, std::int64_t step) {
  return checkpoints_directory(run_directory) / fmt::format("{}{}", step, kTemporarySuffix);
}

std::filesystem::path trash_directory(const std::filesystem::path& run_directory, std::int64_t step) {
  return checkpoints_directory(run_directory) / fmt::format("{}{}", step, kTrashSuffix);
}

std::optional<std::int64_t> parse_step(std::string_view folder, std::string_view suffix) {
  if (!folder.ends_with(suffix)) return std::nullopt;
  folder.remove_suffix(suffix.size());
  const std::optional<std::int64_t> step = parse_number(folder);
  return step && std::to_string(*step) == folder ? step : std::nullopt;
}

std::string range_file_name(std::string_view kind, int device, int device_count) {
  return fmt::format("{}-{:05}-of-{:05}.safetensors", kind, device, device_count);
}

std::string range_entry_name(std::string_view name, const BlockRange& range, const Shape& shape) {
  const ColumnBlock all = all_columns(shape);
  if (range.block != all) {
    return fmt::format("{}@{}+{}:{}+{}", name, range.first, range.count, range.block.begin, range.block.count);
  }
  if (range.first == 0 && range.count == element_count(shape)) return std::string(name);
  return fmt::format("{}@{}+{}", name, range.first, range.count);
}

std::optional<RangeEntry> parse_range_entry(std::string_view entry) {
  const std::size_t at = entry.find('@');
  if (at == std::string_view::npos) return RangeEntry{std::string(entry), 0, std::nullopt, {}};
  const std::string_view range = entry.substr(at + 1);
  const std::size_t colon = range.find(':');
  const auto elements = parse_pair(range.substr(0, colon));
  if (!elements) return std::nullopt;
  const auto [first, count] = *elements;
  RangeEntry parsed{std::string(entry.substr(0, at)), first, count, {}};
  if (colon == std::string_view::npos) return parsed;
  const auto columns = parse_pair(range.substr(colon + 1));
  if (!columns || columns->second == 0) return std::nullopt;
  parsed.block = {columns->first, columns->second};
  return parsed;
}

namespace {

/// Empty when the checkpoint is complete.
std::string why_incomplete(const std::filesystem::path& step_directory) {
  const auto marker = read_small_file(step_directory / kMarker);
  if (!marker) return fmt::format("{} is missing", kMarker);
  const auto manifest = read_small_file(step_directory / kItems / kManifest);
  if (!manifest) return fmt::format("{}/{} is missing", kItems, kManifest);
  if (checksum_text(std::as_bytes(std::span(*manifest))) == *marker) return "";
  return fmt::format("{} does not fit the manifest", kMarker);
}

}  // namespace

bool is_complete_checkpoint(const std::filesystem::path& step_directory) {
  return why_incomplete(step_directory).empty();
}

std::vector<IncompleteCheckpoint> incomplete_checkpoints(const std::filesystem::path& run_directory,
                                                         std::int64_t newest_complete) {
  std::vector<IncompleteCheckpoint> found;
  std::error_code no_directory;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints_directory(run_directory), no_directory)) {
    const std::string name = entry.path().filename().string();
    const auto unfinished = parse_step(name, kTemporarySuffix);
    const auto step = unfinished ? unfinished : parse_step(name);
    if (!step || *step <= newest_complete) continue;
    std::string reason = unfinished ? "its save did not end" : why_incomplete(entry.path());
    if (!reason.empty()) found.push_back({*step, entry.path(), std::move(reason)});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return found;
}

std::vector<std::string> notes_on_incomplete(const std::filesystem::path& run_directory, std::int64_t newest_complete) {
  std::vector<std::string> notes;
  for (const IncompleteCheckpoint& checkpoint : incomplete_checkpoints(run_directory, newest_complete)) {
    notes.push_back(
        fmt::format("note: {} is incomplete ({}), passed over", checkpoint.directory.string(), checkpoint.reason));
  }
  return notes;
}

std::vector<std::int64_t> complete_steps(const std::filesystem::path& run_directory) {
  std::vector<std::int64_t> steps;
  std::error_code no_directory;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints_directory(run_directory), no_directory)) {
    const auto step = parse_step(entry.path().filename().string());
    if (step && is_complete_checkpoint(entry.path())) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::filesystem::path latest_checkpoint(const std::filesystem::path& run_directory) {
  const std::vector<std::int64_t> steps = complete_steps(run_directory);
  return steps.empty() ? std::filesystem::path() : step_directory(run_directory, steps.back());
}

}  // namespace maxtext
