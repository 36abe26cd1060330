#include "data/token_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/source_files.h"
#include "data/token_cache.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kScanTokens = 1 << 16;

IntegerArray open_tokens(const fs::path& path, IntegerType bin_type) {
  if (path.extension() == ".npy") return IntegerArray::open_npy(path);
  if (path.extension() == ".bin") return IntegerArray::open_raw(path, bin_type);
  fail_config("{}: expected a .npy or .bin file of token ids", path.string());
}

std::optional<IntegerArray> open_index(fs::path path) {
  path.replace_extension(".idx");
  if (fs::exists(path)) return IntegerArray::open_raw(path, IntegerType::uint64);
  path += ".npy";
  if (fs::exists(path)) return IntegerArray::open_npy(path);
  return std::nullopt;
}

void scan(const IntegerArray& tokens, std::int32_t separator, TokenCacheWriter& writer) {
  std::vector<std::int32_t> ids;
  for (std::int64_t first = 0; first < tokens.size(); first += kScanTokens) {
    ids.resize(static_cast<std::size_t>(std::min(kScanTokens, tokens.size() - first)));
    tokens.copy(first, ids);
    auto begin = ids.begin();
    while (begin != ids.end()) {
      const auto found = std::find(begin, ids.end(), separator);
      const auto end = found == ids.end() ? found : found + 1;
      writer.skip(end - begin);
      if (found != ids.end()) writer.end_document();
      begin = end;
    }
  }
}

IntegerArray scanned_index(const IntegerArray& tokens, const TokenFilesOptions& options) {
  const nlohmann::json identity = {{"format", 1},
                                   {"kind", "separators"},
                                   {"source", describe_source(tokens.path())},
                                   {"type", integer_type_name(tokens.type())},
                                   {"separator_id", *options.separator_id}};
  const auto build = [&](TokenCacheWriter& writer) { scan(tokens, *options.separator_id, writer); };
  return cached_starts(open_token_cache(options.cache_directory, identity, IntegerType::uint32, build));
}

TokenFile open_file(const fs::path& path, const TokenFilesOptions& options) {
  IntegerArray tokens = open_tokens(path, options.bin_type);
  if (auto index = open_index(path)) {
    if (index->size() == 0) fail("{}: expected the starts of documents, found none", index->path().string());
    return {std::move(tokens), std::move(*index)};
  }
  if (!options.separator_id) return {std::move(tokens), IntegerArray::single_zero()};
  IntegerArray starts = scanned_index(tokens, options);
  return {std::move(tokens), std::move(starts)};
}

}  // namespace

std::shared_ptr<const TokenStore> open_token_files(const std::vector<fs::path>& files,
                                                   const TokenFilesOptions& options) {
  std::vector<TokenFile> opened;
  for (const fs::path& file : files) {
    if (!is_document_index(file)) opened.push_back(open_file(file, options));
  }
  return std::make_shared<TokenStore>(std::move(opened), options.vocab_size);
}

bool is_document_index(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(".idx") || name.ends_with(".idx.npy");
}

}  // namespace maxtext
