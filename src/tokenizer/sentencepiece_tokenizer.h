// SentencePiece models (github.com/google/sentencepiece), the form in which Llama 2, Mistral 7B and Gemma publish
// theirs.
#pragma once

#include "tokenizer/tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace maxtext {

/// add_special_tokens adds bos where the model has one, as Hugging Face's Llama and Gemma tokenizers do. The library
/// never makes a control token of text that spells one.
class SentencepieceTokenizer final : public Tokenizer {
 public:
  /// Loads a .model file. Throws ConfigError when it is not one.
  explicit SentencepieceTokenizer(const std::filesystem::path& path);
  ~SentencepieceTokenizer() override;

  using Tokenizer::decode;
  using Tokenizer::encode;
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options) const override;
  std::vector<std::int32_t> encode_continuation(std::string_view text) const override;
  std::string decode(std::span<const std::int32_t> ids, SpecialTokens special) const override;
  std::string id_to_token(std::int32_t id) const override;
  std::optional<std::int32_t> token_to_id(std::string_view token) const override;
  bool has_token(std::int32_t id) const override { return id >= 0 && id < vocab_size(); }
  bool is_special(std::int32_t id) const override;
  std::int32_t vocab_size() const override;
  std::optional<std::int32_t> bos_id() const override;
  std::optional<std::int32_t> eos_id() const override;
  std::optional<std::int32_t> pad_id() const override;
  std::optional<std::int32_t> unk_id() const override;
  std::string fingerprint() const override { return fingerprint_; }

 private:
  std::string decode_run(std::span<const std::int32_t> ids) const;
  std::string decode_keeping(std::span<const std::int32_t> ids) const;

  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  std::string fingerprint_;
  bool adds_leading_space_ = false;
};

}  // namespace maxtext
