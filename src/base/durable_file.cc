#include "base/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"

namespace maxtext {
namespace {

[[noreturn]] void fail_system(std::string_view action, const std::filesystem::path& path) {
  fail("cannot {} {}: {}", action, path.string(), std::strerror(errno));
}

}  // namespace

DurableWriter::DurableWriter(const std::filesystem::path& path)
    : path_(path), file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (file_ < 0) fail_system("create", path);
}

DurableWriter::~DurableWriter() {
  if (file_ >= 0) ::close(file_);
}

void DurableWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_system("write", path_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void DurableWriter::finish() {
  if (::fsync(file_) != 0) fail_system("sync", path_);
  if (::close(std::exchange(file_, -1)) != 0) fail_system("close", path_);
}

void sync_directory(const std::filesystem::path& directory) {
  const int file = ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) fail_system("open folder", directory);
  const int result = ::fsync(file);
  // Some network file systems cannot sync a folder; they say EINVAL, and their renames are durable by themselves.
  if (result != 0 && errno != EINVAL) {
    const int reason = errno;
    ::close(file);
    errno = reason;
    fail_system("sync folder", directory);
  }
  ::close(file);
}

void write_file_atomically(const std::filesystem::path& path, std::string_view contents) {
  const std::filesystem::path temporary = path.string() + ".tmp-" + std::to_string(::getpid());
  try {
    DurableWriter writer(temporary);
    writer.write(std::as_bytes(std::span(contents)));
    writer.finish();
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail_system("replace", path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(path.parent_path());
}

}  // namespace maxtext
