// The few file operations that saving is made of, behind an interface, so that a test can make any of them fail or be
// the last one before a crash. Reading needs no such care and uses the file system directly.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace maxtext {

/// A new file, written front to back. Destroyed without `finish`, it may be anything: empty, torn or whole.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;

  /// Syncs the contents to disk and closes the file.
  virtual void finish() = 0;
};

/// Every function throws Error that names the path and the reason.
class FileLayer {
 public:
  virtual ~FileLayer() = default;

  /// Creates one directory; its parent must exist, and it is no error when the directory does.
  virtual void create_directory(const std::filesystem::path& path) = 0;

  /// Creates the file, or empties it.
  virtual std::unique_ptr<OutputFile> create_file(const std::filesystem::path& path) = 0;

  /// Atomic. `to` must not exist, or be of the same kind (for directories: empty).
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;

  /// Makes creations, renames and removals in the directory durable.
  virtual void sync_directory(const std::filesystem::path& path) = 0;

  /// Not atomic: a crash leaves any part of the tree. No error when there is nothing.
  virtual void remove_tree(const std::filesystem::path& path) = 0;
};

/// The real thing.
class PosixFileLayer final : public FileLayer {
 public:
  void create_directory(const std::filesystem::path& path) override;
  std::unique_ptr<OutputFile> create_file(const std::filesystem::path& path) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void sync_directory(const std::filesystem::path& path) override;
  void remove_tree(const std::filesystem::path& path) override;
};

/// Creates the directory and those above it that are missing, each made durable in its parent.
void create_directories(FileLayer& files, const std::filesystem::path& path);

/// A whole file: created, written, synced.
void write_whole_file(FileLayer& files, const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace maxtext
