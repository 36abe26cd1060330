#include "checkpoint/file_layer.h"

#include <system_error>

#include "base/durable_file.h"
#include "base/error.h"

namespace maxtext {
namespace {

class PosixOutputFile final : public OutputFile {
 public:
  explicit PosixOutputFile(const std::filesystem::path& path) : writer_(path) {}
  void write(std::span<const std::byte> bytes) override { writer_.write(bytes); }
  void finish() override { writer_.finish(); }

 private:
  DurableWriter writer_;
};

void check(const std::error_code& error, std::string_view action, const std::filesystem::path& path) {
  if (error) fail("cannot {} {}: {}", action, path.string(), error.message());
}

}  // namespace

void PosixFileLayer::create_directory(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directory(path, error);
  check(error, "create folder", path);
}

std::unique_ptr<OutputFile> PosixFileLayer::create_file(const std::filesystem::path& path) {
  return std::make_unique<PosixOutputFile>(path);
}

void PosixFileLayer::rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  check(error, fmt::format("rename {} to", from.string()), to);
}

void PosixFileLayer::sync_directory(const std::filesystem::path& path) { maxtext::sync_directory(path); }

void PosixFileLayer::remove_tree(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  check(error, "remove", path);
}

void create_directories(FileLayer& files, const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) return;
  const std::filesystem::path parent = path.parent_path();
  if (!parent.empty() && parent != path) create_directories(files, parent);
  files.create_directory(path);
  files.sync_directory(parent.empty() ? "." : parent);
}

void write_whole_file(FileLayer& files, const std::filesystem::path& path, std::span<const std::byte> bytes) {
  const std::unique_ptr<OutputFile> file = files.create_file(path);
  file->write(bytes);
  file->finish();
}

}  // namespace maxtext
