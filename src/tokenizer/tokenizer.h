// Text to token ids and back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace maxtext {

struct EncodeOptions {
  /// Add what the tokenizer puts around a text by itself: mostly a beginning-of-sequence token. Leave it off for text
  /// that has it already, as that of chat templates.
  bool add_special_tokens = false;
  /// Where the text spells a special token, such as "</s>", make it that token. Without this it is text like any other,
  /// which is right for what strangers wrote. Kinds of tokenizers that never do it ignore this.
  bool parse_special_tokens = true;
};

/// What decoding does with special tokens: gives nothing for them, or their spelling.
enum class SpecialTokens { skip, keep };

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Ids of `text`. `text` must be valid UTF-8; throws Error naming the byte offset otherwise.
  virtual std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options) const = 0;

  /// The same without any bos or eos of the tokenizer's own.
  std::vector<std::int32_t> encode(std::string_view text) const { return encode(text, EncodeOptions{}); }

  /// Ids of a text that continues an earlier one which was cut before a space: encode(a) + encode_continuation(b)
  /// equals encode(a + b) when no token spans the cut. That lets a document of any size be encoded in bounded memory.
  virtual std::vector<std::int32_t> encode_continuation(std::string_view text) const = 0;

  /// Text of the ids. Throws Error for an id that no token has, naming its index. Ids cut out of a sequence may end, or
  /// begin, within a character: StreamDecoder takes ids one by one.
  virtual std::string decode(std::span<const std::int32_t> ids, SpecialTokens special) const = 0;

  /// The same; special tokens (bos, eos, pad) give nothing.
  std::string decode(std::span<const std::int32_t> ids) const { return decode(ids, SpecialTokens::skip); }

  /// The vocabulary's own spelling of a token. Throws Error for an id that no token has.
  virtual std::string id_to_token(std::int32_t id) const = 0;

  /// The id of a token, by the vocabulary's own spelling.
  virtual std::optional<std::int32_t> token_to_id(std::string_view token) const = 0;

  /// True when there is a token of this id. Models often have more rows of logits than their tokenizer has tokens.
  virtual bool has_token(std::int32_t id) const = 0;

  /// True for tokens that decoding skips.
  virtual bool is_special(std::int32_t id) const = 0;

  /// One more than the largest id.
  virtual std::int32_t vocab_size() const = 0;

  /// Special ids; nothing where the tokenizer has none.
  virtual std::optional<std::int32_t> bos_id() const = 0;
  virtual std::optional<std::int32_t> eos_id() const = 0;
  virtual std::optional<std::int32_t> pad_id() const = 0;
  virtual std::optional<std::int32_t> unk_id() const = 0;

  /// Changes whenever the mapping may have changed: part of the key of caches of tokenised text.
  virtual std::string fingerprint() const = 0;
};

/// Opens a tokenizer of `type` "sentencepiece" (a .model file, or the directory with a tokenizer.model), "huggingface"
/// (a tokenizer.json, or the directory that holds one) or "bytes" (no file). An empty type is either of the first two,
/// by what lies at `path`; of a directory with both it is the tokenizer.json. Throws ConfigError for another type, for
/// a missing file, and for a file that is not of that type or asks for what is not supported: messages begin with the
/// file, and name no key.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path, std::string_view type);

}  // namespace maxtext
