#include "tokenizer/tokenizer.h"

#include "base/error.h"
#include "tokenizer/bytes_tokenizer.h"
#include "tokenizer/hf_tokenizer.h"
#include "tokenizer/sentencepiece_tokenizer.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Tokenizer> open_sentencepiece(const fs::path& path) {
  if (path.empty()) fail_config("expected a sentencepiece .model file or its directory, got nothing");
  const fs::path file = fs::is_directory(path) ? path / "tokenizer.model" : path;
  if (!fs::is_regular_file(file)) fail_config("{}: no such file", file.string());
  return std::make_unique<SentencepieceTokenizer>(file);
}

/// Of a directory with both files the tokenizer.json, as transformers does.
std::unique_ptr<Tokenizer> open_recognised(const fs::path& path) {
  if (path.empty()) {
    fail_config("expected a sentencepiece .model file, a tokenizer.json or the directory with either, got nothing");
  }
  if (path.extension() == ".json" || fs::exists(path / "tokenizer.json")) {
    return std::make_unique<HuggingFaceTokenizer>(path);
  }
  if (fs::is_directory(path) && !fs::exists(path / "tokenizer.model")) {
    fail_config("{}: it has no tokenizer.json or tokenizer.model", path.string());
  }
  return open_sentencepiece(path);
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path, std::string_view type) {
  if (type == "bytes") return std::make_unique<BytesTokenizer>();
  if (type.empty()) return open_recognised(path);
  if (type == "sentencepiece") return open_sentencepiece(path);
  if (type == "huggingface") return std::make_unique<HuggingFaceTokenizer>(path);
  fail_config("expected a tokenizer of type sentencepiece, huggingface or bytes, got '{}'", type);
}

}  // namespace maxtext
