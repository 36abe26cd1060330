// Reading a checkpoint on any mesh.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "tensor/safetensors.h"

namespace maxtext {

/// A checkpoint whose files are not those that were saved: missing, truncated, changed.
class DamagedCheckpoint : public Error {
 public:
  using Error::Error;
};

/// An open, complete checkpoint. Safe to read from several threads. Data is mapped, not loaded: a reader costs the
/// memory of what its caller copies out. The first read that touches a file verifies its checksum (one pass over it).
class CheckpointReader {
 public:
  /// Opens .../checkpoints/<step>. Throws Error when it is not complete, DamagedCheckpoint when a file is missing or
  /// its size differs (expected and found), when a header is invalid or the ranges of a tensor do not cover it exactly.
  explicit CheckpointReader(const std::filesystem::path& step_directory);
  ~CheckpointReader();
  CheckpointReader(CheckpointReader&&) noexcept;

  const std::filesystem::path& directory() const { return directory_; }
  const CheckpointInfo& info() const { return info_; }

  /// Kinds that are there: a checkpoint made from a Hugging Face directory has weights only.
  std::vector<std::string> kinds() const;

  /// Sorted; empty for a kind that is not there.
  std::vector<std::string> names(std::string_view kind) const;
  bool contains(std::string_view kind, std::string_view name) const;

  /// Throws Error that names the checkpoint when there is no such tensor.
  const TensorSpec& spec(std::string_view kind, std::string_view name) const;

  /// Copies elements [first, first + count) in their stored dtype, however the tensor was cut when it was saved; `out`
  /// has exactly their bytes. Throws Error when the range is not within the tensor, and when a touched file is corrupt.
  void read_range(std::string_view kind, std::string_view name, std::int64_t first, std::int64_t count,
                  std::span<std::byte> out) const;

  /// The same of a flattened block of columns.
  void read_block(std::string_view kind, std::string_view name, const ColumnBlock& block, std::int64_t first,
                  std::int64_t count, std::span<std::byte> out) const;

  /// As read_range, converted to float; count = out.size().
  void read_range_as_float(std::string_view kind, std::string_view name, std::int64_t first,
                           std::span<float> out) const;

  /// The tensor's bytes where they lie in one piece in one file, else empty. Valid while the reader lives. Throws Error
  /// when that file is corrupt.
  std::span<const std::byte> whole(std::string_view kind, std::string_view name) const;

  /// Elements [first, first + count) of a tensor or of a block of its columns as one file holds them.
  struct Part {
    ColumnBlock block;  // its count never 0 for all columns
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::span<const std::byte> bytes;
  };
  /// All parts of a tensor, by their blocks' begins and then ascending, which together cover it exactly. Valid while
  /// the reader lives. Throws Error as `whole`.
  std::vector<Part> parts(std::string_view kind, std::string_view name) const;

  /// Verifies the checksums of all files; throws Error that names the corrupt one.
  void verify() const;

 private:
  struct StoredFile;
  struct Piece {
    BlockRange range;  // its block explicit
    std::span<const std::byte> bytes;
    const StoredFile* file = nullptr;
  };
  struct StoredTensor {
    TensorSpec spec;
    std::vector<Piece> pieces;
  };
  using Tensors = std::map<std::string, StoredTensor, std::less<>>;

  void open_files();
  void check_coverage() const;
  const StoredTensor& tensor(std::string_view kind, std::string_view name) const;
  template <typename Copy>
  void copy_runs(std::string_view kind, std::string_view name, const BlockRange& wanted, Copy copy) const;

  std::filesystem::path directory_;
  CheckpointInfo info_;
  std::map<std::string, Tensors, std::less<>> tensors_;
  std::vector<std::unique_ptr<StoredFile>> files_;
};

}  // namespace maxtext
