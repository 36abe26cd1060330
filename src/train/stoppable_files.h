// A file layer whose writing can be given up from another thread.
#pragma once

#include <atomic>
#include <memory>

#include "checkpoint/file_layer.h"

namespace maxtext {

/// Passes everything on. After `stop`, each write of a file throws Error, so a save ends with its next piece, as if the
/// disk were full, and removes what it wrote; what cannot be interrupted is one call of the system.
class StoppableFileLayer final : public FileLayer {
 public:
  explicit StoppableFileLayer(std::shared_ptr<FileLayer> files) : files_(std::move(files)) {}

  /// Any thread may call it.
  void stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  void create_directory(const std::filesystem::path& path) override { files_->create_directory(path); }
  std::unique_ptr<OutputFile> create_file(const std::filesystem::path& path) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override { files_->rename(from, to); }
  void sync_directory(const std::filesystem::path& path) override { files_->sync_directory(path); }
  void remove_tree(const std::filesystem::path& path) override { files_->remove_tree(path); }

 private:
  std::shared_ptr<FileLayer> files_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace maxtext
