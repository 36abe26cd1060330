#include "data/token_cache.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/content_hash.h"
#include "base/error.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = 1 << 20;
constexpr const char* kTokens = "tokens.bin";
constexpr const char* kDocuments = "documents.bin";
constexpr const char* kManifest = "manifest.json";

template <typename T>
void push(std::vector<std::byte>& buffer, T value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  buffer.insert(buffer.end(), bytes, bytes + sizeof(T));
}

void flush(std::vector<std::byte>& buffer, DurableWriter& file) {
  file.write(buffer);
  buffer.clear();
}

/// An exclusive lock between processes, released also when the holder dies.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& path) : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (file_ < 0) fail("cannot create {}: {}", path.string(), std::strerror(errno));
    while (::flock(file_, LOCK_EX) != 0) {
      if (errno == EINTR) continue;
      const int reason = errno;
      ::close(file_);
      fail("cannot lock {}: {}", path.string(), std::strerror(reason));
    }
  }
  ~FolderLock() { ::close(file_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_;
};

bool has_size(const fs::path& path, const nlohmann::json& manifest) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return !error && manifest.at("bytes").at(path.filename().string()) == size;
}

bool usable(const fs::path& cache, const nlohmann::json& identity) {
  std::ifstream file(cache / kManifest);
  if (!file) return false;
  try {
    const auto manifest = nlohmann::json::parse(file);
    return manifest.at("identity") == identity && has_size(cache / kTokens, manifest) &&
           has_size(cache / kDocuments, manifest);
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

void remove_abandoned(const fs::path& directory, const std::string& prefix) {
  std::vector<fs::path> abandoned;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().filename().string().starts_with(prefix)) abandoned.push_back(entry.path());
  }
  for (const fs::path& path : abandoned) fs::remove_all(path);
}

void fill(const fs::path& folder, const nlohmann::json& identity, IntegerType type, const CacheBuilder& build) {
  fs::create_directory(folder);
  TokenCacheWriter writer(folder, type);
  build(writer);
  writer.finish();
  const nlohmann::json manifest = {
      {"identity", identity},
      {"documents", writer.documents()},
      {"tokens", writer.tokens()},
      {"bytes", {{kTokens, fs::file_size(folder / kTokens)}, {kDocuments, fs::file_size(folder / kDocuments)}}}};
  write_file_atomically(folder / kManifest, manifest.dump(1) + "\n");
}

}  // namespace

TokenCacheWriter::TokenCacheWriter(const fs::path& directory, IntegerType type)
    : element_size_(integer_size(type)), token_file_(directory / kTokens), document_file_(directory / kDocuments) {}

void TokenCacheWriter::append(std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids) {
    if (element_size_ == 2) {
      push(token_buffer_, static_cast<std::uint16_t>(id));
    } else {
      push(token_buffer_, static_cast<std::uint32_t>(id));
    }
  }
  document_tokens_ += std::ssize(ids);
  if (token_buffer_.size() >= kBufferBytes) flush(token_buffer_, token_file_);
}

void TokenCacheWriter::end_document() {
  if (document_tokens_ == 0) return;
  push(document_buffer_, static_cast<std::uint64_t>(tokens_));
  tokens_ += document_tokens_;
  document_tokens_ = 0;
  ++documents_;
  if (document_buffer_.size() >= kBufferBytes) flush(document_buffer_, document_file_);
}

void TokenCacheWriter::finish() {
  end_document();
  flush(token_buffer_, token_file_);
  flush(document_buffer_, document_file_);
  token_file_.finish();
  document_file_.finish();
}

fs::path open_token_cache(const fs::path& directory, const nlohmann::json& identity, IntegerType type,
                          const CacheBuilder& build) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) fail("cannot create folder {}: {}", directory.string(), error.message());
  const std::string name = hash_text(content_hash(identity.dump()));
  fs::path cache = directory / name;
  const FolderLock lock(directory / (name + ".lock"));
  if (usable(cache, identity)) return cache;
  if (fs::exists(cache)) spdlog::warn("{} is damaged or made from something else: building it again", cache.string());
  // Under the lock nobody builds this cache, so what is left under a temporary name was abandoned.
  const std::string temporary_prefix = name + ".tmp-";
  remove_abandoned(directory, temporary_prefix);
  const fs::path temporary = directory / (temporary_prefix + std::to_string(::getpid()));
  try {
    fill(temporary, identity, type, build);
    fs::remove_all(cache);
    fs::rename(temporary, cache);
    sync_directory(directory);
  } catch (const fs::filesystem_error& failure) {
    remove_abandoned(directory, temporary_prefix);
    fail("cannot write the cache {}: {}", cache.string(), failure.what());
  } catch (...) {
    remove_abandoned(directory, temporary_prefix);
    throw;
  }
  return cache;
}

TokenFile cached_tokens(const fs::path& cache, IntegerType type) {
  return {IntegerArray::open_raw(cache / kTokens, type), cached_starts(cache)};
}

IntegerArray cached_starts(const fs::path& cache) {
  return IntegerArray::open_raw(cache / kDocuments, IntegerType::uint64);
}

}  // namespace maxtext
