#include "data/text_documents.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/seconds_since.h"
#include "data/source_files.h"
#include "data/token_cache.h"

namespace maxtext {
namespace {

using Files = std::vector<std::filesystem::path>;

struct DocumentEnds {
  std::optional<std::int32_t> bos;
  std::optional<std::int32_t> eos;
};

DocumentEnds document_ends(const Tokenizer& tokenizer, const TextDocumentsOptions& options) {
  DocumentEnds ends;
  if (options.add_bos) ends.bos = tokenizer.bos_id();
  if (options.add_eos) ends.eos = tokenizer.eos_id();
  if (options.add_bos && !ends.bos) fail_config("add_bos=true: the tokenizer has no beginning-of-sequence token");
  if (options.add_eos && !ends.eos) fail_config("add_eos=true: the tokenizer has no end-of-sequence token");
  return ends;
}

nlohmann::json identity(const Files& files, const Tokenizer& tokenizer, const TextDocumentsOptions& options) {
  nlohmann::json sources = nlohmann::json::array();
  for (const auto& file : files) sources.push_back(describe_source(file));
  return {{"format", 1},
          {"kind", "text"},
          {"sources", std::move(sources)},
          {"tokenizer", tokenizer.fingerprint()},
          {"jsonl_field", options.format.jsonl_field},
          {"document_separator", options.format.document_separator},
          {"add_bos", options.add_bos},
          {"add_eos", options.add_eos}};
}

void tokenize(const Files& files, const Tokenizer& tokenizer, const TextDocumentsOptions& options,
              TokenCacheWriter& writer) {
  const auto start = std::chrono::steady_clock::now();
  const DocumentEnds ends = document_ends(tokenizer, options);
  TextReader reader(files, options.format);
  TextPart part;
  std::size_t bytes = 0;
  while (reader.next(part)) {
    bytes += part.text.size();
    if (part.begins_document && ends.bos) writer.append({{*ends.bos}});
    writer.append(part.begins_document ? tokenizer.encode(part.text) : tokenizer.encode_continuation(part.text));
    if (part.ends_document && ends.eos) writer.append({{*ends.eos}});
    if (part.ends_document) writer.end_document();
  }
  spdlog::info("tokenized {} files: {} documents, {} tokens, {:.1f} MB in {:.1f} s", files.size(), writer.documents(),
               writer.tokens(), static_cast<double>(bytes) / 1e6, seconds_since(start));
}

}  // namespace

std::shared_ptr<const TokenStore> open_text_documents(const Files& files, const Tokenizer& tokenizer,
                                                      const TextDocumentsOptions& options) {
  document_ends(tokenizer, options);
  const IntegerType type = tokenizer.vocab_size() <= 65536 ? IntegerType::uint16 : IntegerType::uint32;
  const auto build = [&](TokenCacheWriter& writer) { tokenize(files, tokenizer, options, writer); };
  const auto cache = open_token_cache(options.cache_directory, identity(files, tokenizer, options), type, build);
  std::vector<TokenFile> tokens;
  tokens.push_back(cached_tokens(cache, type));
  return std::make_shared<TokenStore>(std::move(tokens), tokenizer.vocab_size());
}

}  // namespace maxtext
