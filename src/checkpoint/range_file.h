// Writes the ranges that one device owns of one kind of state.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checksum.h"
#include "checkpoint/manifest.h"

namespace maxtext {

/// A safetensors file in two phases, so that the owner may go on changing the tensors while the disk still syncs.
class RangeFileWriter {
 public:
  /// Throws Error that names the tensor unless each range lies within its tensor or block and has its bytes.
  RangeFileWriter(FileLayer& files, const std::filesystem::path& directory, const std::string& file_name,
                  const std::string& kind, std::vector<const OwnedRange*> ranges);

  /// Hands all bytes to the operating system.
  void write();

  /// Syncs and closes.
  FileRecord finish();

 private:
  void write_piecewise(std::span<const std::byte> bytes);

  std::vector<const OwnedRange*> ranges_;
  FileRecord record_;
  Checksum checksum_;
  std::unique_ptr<OutputFile> file_;
};

}  // namespace maxtext
