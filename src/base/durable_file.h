// Files that are either wholly there, also after a crash, or not there: written under another name, synced, renamed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace maxtext {

/// A new file written front to back. Nothing reaches `path` for certain before `finish`.
class DurableWriter {
 public:
  /// Creates or truncates `path`. Throws Error naming path and reason, as all members do.
  explicit DurableWriter(const std::filesystem::path& path);
  ~DurableWriter();
  DurableWriter(const DurableWriter&) = delete;
  DurableWriter& operator=(const DurableWriter&) = delete;

  void write(std::span<const std::byte> bytes);
  /// Syncs the contents to disk and closes. A writer destroyed without it leaves an unsynced file.
  void finish();

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

/// Syncs a directory, which makes the creations, removals and renames in it durable.
void sync_directory(const std::filesystem::path& directory);

/// Replaces `path` by a file with these contents: temporary file beside it, sync, rename, sync of the directory.
void write_file_atomically(const std::filesystem::path& path, std::string_view contents);

}  // namespace maxtext
