#include "checkpoint/reader.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <tuple>

#include "base/error.h"
#include "checkpoint/checksum.h"
#include "checkpoint/coverage.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "tensor/half.h"

namespace maxtext {

struct CheckpointReader::StoredFile {
  StoredFile(const std::filesystem::path& path, std::string expected)
      : file(path), expected_checksum(std::move(expected)) {}

  /// Once per file, by whoever comes first; the others wait.
  void verify() const {
    const std::lock_guard lock(mutex);
    if (verified) return;
    const std::string found = checksum_text(file.file_bytes());
    if (found != expected_checksum) {
      throw DamagedCheckpoint(fmt::format("{}: corrupt: its checksum is {}, the manifest says {}", file.path().string(),
                                          found, expected_checksum));
    }
    verified = true;
  }

  SafetensorsFile file;
  std::string expected_checksum;
  mutable std::mutex mutex;
  mutable bool verified = false;
};

CheckpointReader::CheckpointReader(const std::filesystem::path& step_directory) : directory_(step_directory) {
  if (!is_complete_checkpoint(step_directory)) {
    fail("{}: not a complete checkpoint: {} is missing or does not fit the manifest", step_directory.string(), kMarker);
  }
  try {
    open_files();
    check_coverage();
  } catch (const Error& error) {
    throw DamagedCheckpoint(error.what());
  }
}

CheckpointReader::~CheckpointReader() = default;
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;

void CheckpointReader::open_files() {
  const std::filesystem::path items = directory_ / kItems;
  Manifest manifest = read_manifest(items / kManifest);
  info_ = std::move(manifest.info);
  for (auto& [kind, specs] : manifest.tensors) {
    for (auto& [name, spec] : specs) tensors_[kind][name].spec = spec;
  }
  for (const FileRecord& record : manifest.files) {
    const std::filesystem::path path = items / record.name;
    std::error_code missing;
    const auto bytes = std::filesystem::file_size(path, missing);
    if (missing) fail("{}: missing: {}", path.string(), missing.message());
    if (bytes != static_cast<std::uintmax_t>(record.bytes)) {
      fail("{}: has {} bytes, the manifest says {}", path.string(), bytes, record.bytes);
    }
    const StoredFile& stored = *files_.emplace_back(std::make_unique<StoredFile>(path, record.checksum));
    for (const SafetensorsEntry& entry : stored.file.entries()) {
      const std::optional<RangeEntry> range = parse_range_entry(entry.name);
      const auto kind = tensors_.find(record.kind);
      if (!range || kind == tensors_.end() || !kind->second.contains(range->name)) {
        fail("{}: tensor '{}': the manifest does not know it", path.string(), entry.name);
      }
      StoredTensor& tensor = kind->second.find(range->name)->second;
      const std::int64_t elements = entry.spec.elements();
      const BlockRange found{explicit_block(range->block, tensor.spec.shape), range->first, elements};
      if (entry.spec.dtype != tensor.spec.dtype || range->count.value_or(elements) != elements ||
          !is_within(found, tensor.spec.shape)) {
        fail("{}: tensor '{}': found {}, expected a part of {}", path.string(), entry.name, to_string(entry.spec),
             to_string(tensor.spec));
      }
      tensor.pieces.push_back({found, entry.bytes, &stored});
    }
  }
}

void CheckpointReader::check_coverage() const {
  for (const auto& [kind, tensors] : tensors_) {
    for (const auto& [name, tensor] : tensors) {
      std::vector<BlockRange> ranges;
      for (const Piece& piece : tensor.pieces) ranges.push_back(piece.range);
      try {
        maxtext::check_coverage(kind, name, tensor.spec.shape, ranges);
      } catch (const Error& error) {
        fail("{}: {}", directory_.string(), error.what());
      }
    }
  }
}

std::vector<std::string> CheckpointReader::kinds() const {
  std::vector<std::string> kinds;
  for (const auto& [kind, tensors] : tensors_) kinds.push_back(kind);
  return kinds;
}

std::vector<std::string> CheckpointReader::names(std::string_view kind) const {
  std::vector<std::string> names;
  const auto found = tensors_.find(kind);
  if (found == tensors_.end()) return names;
  for (const auto& [name, tensor] : found->second) names.push_back(name);
  return names;
}

bool CheckpointReader::contains(std::string_view kind, std::string_view name) const {
  const auto found = tensors_.find(kind);
  return found != tensors_.end() && found->second.contains(name);
}

const CheckpointReader::StoredTensor& CheckpointReader::tensor(std::string_view kind, std::string_view name) const {
  if (!contains(kind, name)) fail("{}: there is no {} '{}'", directory_.string(), kind, name);
  return tensors_.find(kind)->second.find(name)->second;
}

const TensorSpec& CheckpointReader::spec(std::string_view kind, std::string_view name) const {
  return tensor(kind, name).spec;
}

/// copy(offset in the caller's range, elements, stored bytes) for each run that is contiguous there and in a piece.
template <typename Copy>
void CheckpointReader::copy_runs(std::string_view kind, std::string_view name, const BlockRange& wanted,
                                 Copy copy) const {
  const StoredTensor& stored = tensor(kind, name);
  if (!is_within(wanted, stored.spec.shape)) {
    fail("{}: {} '{}': {} is not within {}", directory_.string(), kind, name, to_string(wanted, stored.spec.shape),
         to_string(stored.spec));
  }
  const auto size = static_cast<std::size_t>(dtype_size(stored.spec.dtype));
  for (const Piece& piece : stored.pieces) {
    const BlockRange common = overlap(wanted, piece.range);
    if (common.count == 0) continue;
    piece.file->verify();
    for_each_run(common, wanted.block, piece.range.block, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
      const auto elements = static_cast<std::size_t>(count);
      const auto begin = static_cast<std::size_t>(from - piece.range.first) * size;
      copy(static_cast<std::size_t>(to - wanted.first), elements, piece.bytes.subspan(begin, elements * size));
    });
  }
}

void CheckpointReader::read_range(std::string_view kind, std::string_view name, std::int64_t first, std::int64_t count,
                                  std::span<std::byte> out) const {
  read_block(kind, name, {}, first, count, out);
}

void CheckpointReader::read_block(std::string_view kind, std::string_view name, const ColumnBlock& block,
                                  std::int64_t first, std::int64_t count, std::span<std::byte> out) const {
  const TensorSpec& stored = spec(kind, name);
  const auto size = static_cast<std::size_t>(dtype_size(stored.dtype));
  if (count < 0 || out.size() != static_cast<std::size_t>(count) * size) {
    fail("{} '{}': {} elements do not take the {} bytes given", kind, name, count, out.size());
  }
  copy_runs(kind, name, {explicit_block(block, stored.shape), first, count},
            [&](std::size_t offset, std::size_t, std::span<const std::byte> bytes) {
              std::memcpy(out.data() + offset * size, bytes.data(), bytes.size());
            });
}

void CheckpointReader::read_range_as_float(std::string_view kind, std::string_view name, std::int64_t first,
                                           std::span<float> out) const {
  const TensorSpec& stored = spec(kind, name);
  copy_runs(kind, name, {all_columns(stored.shape), first, static_cast<std::int64_t>(out.size())},
            [&](std::size_t offset, std::size_t count, std::span<const std::byte> bytes) {
              convert_to_float(bytes, stored.dtype, out.subspan(offset, count));
            });
}

std::span<const std::byte> CheckpointReader::whole(std::string_view kind, std::string_view name) const {
  const StoredTensor& stored = tensor(kind, name);
  if (stored.pieces.size() != 1) return {};
  stored.pieces.front().file->verify();
  return stored.pieces.front().bytes;
}

std::vector<CheckpointReader::Part> CheckpointReader::parts(std::string_view kind, std::string_view name) const {
  std::vector<Part> parts;
  for (const Piece& piece : tensor(kind, name).pieces) {
    piece.file->verify();
    parts.push_back({piece.range.block, piece.range.first, piece.range.count, piece.bytes});
  }
  std::ranges::sort(parts, {}, [](const Part& part) { return std::tuple(part.block.begin, part.first); });
  return parts;
}

void CheckpointReader::verify() const {
  for (const auto& file : files_) file->verify();
}

}  // namespace maxtext
