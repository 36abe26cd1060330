// A cache of tokenised documents in a folder of its own: tokens.bin, documents.bin (uint64 starts), manifest.json.
// It is built under a temporary name and renamed when complete and synced, so it is loadable wholly or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "base/durable_file.h"
#include "data/token_store.h"

namespace maxtext {

/// Appends tokens to a cache that is being built, in memory that does not depend on their number.
class TokenCacheWriter {
 public:
  /// Writes into the existing folder `directory`; tokens are stored as `type`, uint16 or uint32.
  TokenCacheWriter(const std::filesystem::path& directory, IntegerType type);

  /// Appends tokens to the current document.
  void append(std::span<const std::int32_t> ids);
  /// Counts tokens of the current document that are stored elsewhere.
  void skip(std::int64_t tokens) { document_tokens_ += tokens; }
  /// Ends the current document; one without tokens leaves no trace.
  void end_document();

  std::int64_t documents() const { return documents_; }
  std::int64_t tokens() const { return tokens_; }

  /// Ends an open document, writes out what is buffered and syncs both files.
  void finish();

 private:
  std::int64_t element_size_;
  DurableWriter token_file_;
  DurableWriter document_file_;
  std::vector<std::byte> token_buffer_;
  std::vector<std::byte> document_buffer_;
  std::int64_t documents_ = 0;
  std::int64_t tokens_ = 0;  // of finished documents
  std::int64_t document_tokens_ = 0;
};

using CacheBuilder = std::function<void(TokenCacheWriter&)>;

/// The folder of the cache below `directory` whose manifest has this `identity` (everything its contents depend on) and
/// whose files have the manifest's sizes. When there is none, `build` fills a new one; a damaged one is replaced. Of
/// several processes one builds while the others wait. Throws what `build` throws, and Error for a failing disk; then
/// nothing is left that could be loaded.
std::filesystem::path open_token_cache(const std::filesystem::path& directory, const nlohmann::json& identity,
                                       IntegerType type, const CacheBuilder& build);

/// The tokens of a cache folder, or only its starts for tokens that lie elsewhere.
TokenFile cached_tokens(const std::filesystem::path& cache, IntegerType type);
IntegerArray cached_starts(const std::filesystem::path& cache);

}  // namespace maxtext
