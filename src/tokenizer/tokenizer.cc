#include "tokenizer/tokenizer.h"

#include "base/error.h"
#include "tokenizer/bytes_tokenizer.h"
#include "tokenizer/sentencepiece_tokenizer.h"

namespace maxtext {

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path, std::string_view type) {
  if (type == "bytes") return std::make_unique<BytesTokenizer>();
  if (type != "sentencepiece") {
    fail_config("tokenizer_type: expected sentencepiece or bytes, got '{}'{}", type,
                type == "huggingface" ? " (tokenizer.json files cannot be read yet)" : "");
  }
  if (path.empty()) fail_config("tokenizer_path: expected a sentencepiece .model file, got nothing");
  if (!std::filesystem::is_regular_file(path)) fail_config("tokenizer_path: no such file: {}", path.string());
  if (path.extension() == ".json") {
    fail_config(
        "tokenizer_path: expected a sentencepiece .model file, got {} (tokenizer.json files cannot be read yet)",
        path.string());
  }
  return std::make_unique<SentencepieceTokenizer>(path);
}

}  // namespace maxtext
