#include "checkpoint/range_file.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "tensor/safetensors.h"

namespace maxtext {
namespace {

/// A piece is hashed and copied to the page cache while it is in the core's cache.
constexpr std::size_t kPieceBytes = std::size_t{1} << 18;

BlockRange block_range(const OwnedRange& range) {
  return {explicit_block(range.block, range.spec.shape), range.first, range.count};
}

void check_range(const OwnedRange& range) {
  if (range.name.find('@') != std::string::npos) fail("the tensor name '{}' may not contain '@'", range.name);
  if (!is_within(block_range(range), range.spec.shape)) {
    fail("{} '{}': {} is not within {}", range.kind, range.name, to_string(block_range(range), range.spec.shape),
         to_string(range.spec));
  }
  const std::int64_t bytes = range.count * dtype_size(range.spec.dtype);
  if (static_cast<std::int64_t>(range.bytes.size()) != bytes) {
    fail("{} '{}': {} elements of {} take {} bytes, but {} were given", range.kind, range.name, range.count,
         dtype_name(range.spec.dtype), bytes, range.bytes.size());
  }
}

}  // namespace

RangeFileWriter::RangeFileWriter(FileLayer& files, const std::filesystem::path& directory, const std::string& file_name,
                                 const std::string& kind, std::vector<const OwnedRange*> ranges)
    : ranges_(std::move(ranges)), record_{file_name, kind, 0, "", {}} {
  for (const OwnedRange* range : ranges_) {
    check_range(*range);
    record_.ranges.push_back({range->name, range->spec, block_range(*range)});
  }
  file_ = files.create_file(directory / file_name);
}

void RangeFileWriter::write() {
  std::vector<NamedSpec> entries;
  for (const auto& [name, spec, range] : record_.ranges) {
    const bool whole = range.count == spec.elements();
    entries.push_back(
        {range_entry_name(name, range, spec.shape), {whole ? spec.shape : Shape{range.count}, spec.dtype}});
  }
  const std::string header = safetensors_header(entries, {{"format", "pt"}, {"maxtext_kind", record_.kind}});
  write_piecewise(std::as_bytes(std::span(header)));
  for (const OwnedRange* range : ranges_) write_piecewise(range->bytes);
}

void RangeFileWriter::write_piecewise(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::span<const std::byte> piece = bytes.first(std::min(bytes.size(), kPieceBytes));
    checksum_.update(piece);
    file_->write(piece);
    record_.bytes += static_cast<std::int64_t>(piece.size());
    bytes = bytes.subspan(piece.size());
  }
}

FileRecord RangeFileWriter::finish() {
  file_->finish();
  file_.reset();
  record_.checksum = checksum_.text();
  return record_;
}

}  // namespace maxtext
