#include "tokenizer/tokenizer.h"

#include "base/error.h"
#include "tokenizer/bytes_tokenizer.h"
#include "tokenizer/hf_tokenizer.h"
#include "tokenizer/sentencepiece_tokenizer.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;

/// sentencepiece is the default, with which a tokenizer.json is recognised all the same.
std::unique_ptr<Tokenizer> open_sentencepiece(const fs::path& path) {
  if (path.empty()) fail_config("tokenizer_path: expected a sentencepiece .model file, got nothing");
  if (fs::exists(path / "tokenizer.json") || path.extension() == ".json") {
    return std::make_unique<HuggingFaceTokenizer>(path);
  }
  const fs::path file = fs::is_directory(path) ? path / "tokenizer.model" : path;
  if (fs::is_regular_file(file)) return std::make_unique<SentencepieceTokenizer>(file);
  if (!fs::is_directory(path)) fail_config("tokenizer_path: no such file: {}", path.string());
  fail_config("tokenizer_path: {} has no tokenizer.json or tokenizer.model", path.string());
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path, std::string_view type) {
  if (type == "bytes") return std::make_unique<BytesTokenizer>();
  if (type == "sentencepiece") return open_sentencepiece(path);
  if (type == "huggingface") return std::make_unique<HuggingFaceTokenizer>(path);
  fail_config("tokenizer_type: expected sentencepiece, huggingface or bytes, got '{}'", type);
}

}  // namespace maxtext
