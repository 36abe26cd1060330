// Token stores from files of token ids that were made elsewhere.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "data/token_store.h"

namespace maxtext {

struct TokenFilesOptions {
  std::int64_t vocab_size = 0;
  /// Element type of .bin files; .npy files say theirs.
  IntegerType bin_type = IntegerType::uint16;
  /// The id that ends a document (and belongs to it) in files without an index; nothing: a file is one document.
  std::optional<std::int32_t> separator_id;
  /// Where the document starts found by scanning for separator_id are kept.
  std::filesystem::path cache_directory;
};

/// Opens x.npy (uint16, uint32, int32, ...) and x.bin files. Documents start at the indices in x.idx (raw uint64) or
/// x.idx.npy beside it, when there is one; else after each separator_id; such a file is scanned once and its index
/// kept. Throws Error for corrupt files, ConfigError for other extensions.
std::shared_ptr<const TokenStore> open_token_files(const std::vector<std::filesystem::path>& files,
                                                   const TokenFilesOptions& options);

/// Whether the file is an index of another one rather than tokens, by its name.
bool is_document_index(const std::filesystem::path& path);

}  // namespace maxtext
