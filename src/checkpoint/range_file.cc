#include "checkpoint/range_file.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/layout.h"
#include "tensor/safetensors.h"

namespace maxtext {
namespace {

/// A piece is hashed and copied to the page cache while it is in the core's cache.
constexpr std::size_t kPieceBytes = std::size_t{1} << 18;

void check_range(const OwnedRange& range) {
  const std::int64_t elements = range.spec.elements();
  if (range.name.find('@') != std::string::npos) fail("the tensor name '{}' may not contain '@'", range.name);
  if (range.first < 0 || range.count < 0 || range.count > elements || range.first > elements - range.count) {
    fail("{} '{}': the range of {} elements from {} is not within {}", range.kind, range.name, range.count, range.first,
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
    record_.ranges.push_back({range->name, range->spec, range->first, range->count});
  }
  file_ = files.create_file(directory / file_name);
}

void RangeFileWriter::write() {
  std::vector<NamedSpec> entries;
  for (const OwnedRange* range : ranges_) {
    const std::int64_t elements = range->spec.elements();
    const bool whole = range->count == elements;
    entries.push_back({range_entry_name(range->name, range->first, range->count, elements),
                       {whole ? range->spec.shape : Shape{range->count}, range->spec.dtype}});
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
