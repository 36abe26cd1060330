// Token stores from text: tokenised once into a cache, then mapped.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "data/text_reader.h"
#include "data/token_store.h"
#include "tokenizer/tokenizer.h"

namespace maxtext {

struct TextDocumentsOptions {
  TextFormat format;
  bool add_bos = true;
  bool add_eos = true;
  std::filesystem::path cache_directory;
};

/// The documents of `files` as tokens. The cache is reused while paths, sizes and modification times of the files, the
/// tokenizer and the options are the same; it can be deleted at any time. Memory does not depend on the size of the
/// text, except that a line of .jsonl must fit. Throws ConfigError when bos or eos is wanted and the tokenizer has
/// none, and the errors of TextReader and open_token_cache.
std::shared_ptr<const TokenStore> open_text_documents(const std::vector<std::filesystem::path>& files,
                                                      const Tokenizer& tokenizer, const TextDocumentsOptions& options);

}  // namespace maxtext
