#include "tokenizer/tokenizer.h"

#include "base/error.h"
#include "tokenizer/bytes_tokenizer.h"
#include "tokenizer/hf_tokenizer.h"
#include "tokenizer/sentencepiece_tokenizer.h"

namespace maxtext {
namespace {

std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& path) {
  if (path.empty()) fail_config("tokenizer_path: expected a sentencepiece .model file, got nothing");
  if (!std::filesystem::is_regular_file(path)) fail_config("tokenizer_path: no such file: {}", path.string());
  if (path.extension() == ".json") {
    fail_config(
        "tokenizer_path: expected a sentencepiece .model file, got {} (tokenizer_type=huggingface reads "
        "tokenizer.json)",
        path.string());
  }
  return std::make_unique<SentencepieceTokenizer>(path);
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path, std::string_view type) {
  if (type == "bytes") return std::make_unique<BytesTokenizer>();
  if (type == "sentencepiece") return open_sentencepiece(path);
  if (type == "huggingface") return std::make_unique<HuggingFaceTokenizer>(path);
  fail_config("tokenizer_type: expected sentencepiece, huggingface or bytes, got '{}'", type);
}

}  // namespace maxtext
