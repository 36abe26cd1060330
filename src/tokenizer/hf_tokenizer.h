// Hugging Face's tokenizer.json, executed as written: what the file says is done, by the semantics of the tokenizers
// library (github.com/huggingface/tokenizers), and what is not supported is refused by name.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe_model.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_decoder.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_file.h"

namespace maxtext {

/// The model is BPE. Special ids come from the tokenizer_config.json beside the file, where there is one, and so does
/// whether bos and eos are added (add_bos_token, add_eos_token), else from the post-processor. `truncation` and
/// `padding` do not count, as in transformers, which sets both per call.
///
/// Encoding by several threads at once is safe; each takes a scratch of its own (2 MiB, kept for the next call).
class HuggingFaceTokenizer final : public Tokenizer {
 public:
  /// Opens a tokenizer.json, or the one of a directory. Throws ConfigError naming file and component for what is wrong
  /// or not supported.
  explicit HuggingFaceTokenizer(const std::filesystem::path& path);

  /// The same from the texts of the two files; `config` may be empty, `name` is what errors call the tokenizer.json.
  HuggingFaceTokenizer(std::string_view text, std::string_view config, const std::string& name);

  ~HuggingFaceTokenizer() override;

  using Tokenizer::decode;
  using Tokenizer::encode;
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options) const override;
  std::vector<std::int32_t> encode_continuation(std::string_view text) const override;
  std::string decode(std::span<const std::int32_t> ids, SpecialTokens special) const override;
  std::string id_to_token(std::int32_t id) const override;
  std::optional<std::int32_t> token_to_id(std::string_view token) const override;
  bool has_token(std::int32_t id) const override;
  bool is_special(std::int32_t id) const override;
  std::int32_t vocab_size() const override { return vocab_size_; }
  std::optional<std::int32_t> bos_id() const override { return bos_id_; }
  std::optional<std::int32_t> eos_id() const override { return eos_id_; }
  std::optional<std::int32_t> pad_id() const override { return pad_id_; }
  std::optional<std::int32_t> unk_id() const override { return unk_id_; }
  std::string fingerprint() const override { return fingerprint_; }

  /// Number of tokens of the model, and of those with the added tokens.
  std::int32_t tokens_without_added() const { return model_->vocab().size(); }
  std::int32_t tokens_with_added() const { return tokens_without_added() + added_->beyond_vocab(); }

 private:
  struct Scratch;
  class ScratchLoan;
  class ModelSink;

  struct Files {
    std::string text;
    std::string config;
    std::string name;
  };
  static Files read_files(const std::filesystem::path& path);
  explicit HuggingFaceTokenizer(const Files& files);

  void read_components(TokenizerFile file);
  void read_config(std::string_view text, const std::string& name);
  std::optional<std::int32_t> named_token(const JsonNode& config, std::string_view key, bool required) const;

  std::vector<std::int32_t> encode_text(std::string_view text, bool parse_special, bool continues) const;
  void encode_normalized(const NormalizedText& text, bool parse_special, Scratch& scratch,
                         std::vector<std::int32_t>& ids) const;

  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  std::unique_ptr<BpeModel> model_;
  std::unique_ptr<AddedTokens> added_;
  std::unique_ptr<TokenDecoder> decoder_;
  SpecialAffixes affixes_;
  std::int32_t vocab_size_ = 0;
  std::optional<std::int32_t> bos_id_;
  std::optional<std::int32_t> eos_id_;
  std::optional<std::int32_t> pad_id_;
  std::optional<std::int32_t> unk_id_;
  std::string fingerprint_;

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_;
};

}  // namespace maxtext
