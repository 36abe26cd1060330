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

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Ids of `text` without any bos or eos. `text` must be valid UTF-8; throws Error naming the byte offset otherwise.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;

  /// Ids of a text that continues an earlier one which was cut before a space: encode(a) + encode_continuation(b)
  /// equals encode(a + b) when no token spans the cut. That lets a document of any size be encoded in bounded memory.
  virtual std::vector<std::int32_t> encode_continuation(std::string_view text) const = 0;

  /// Text of the ids; control tokens (bos, eos, pad) give nothing. Throws Error for an id outside the vocabulary,
  /// naming its index.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  virtual std::int32_t vocab_size() const = 0;

  /// Special ids; nothing where the tokenizer has none.
  virtual std::optional<std::int32_t> bos_id() const = 0;
  virtual std::optional<std::int32_t> eos_id() const = 0;
  virtual std::optional<std::int32_t> pad_id() const = 0;
  virtual std::optional<std::int32_t> unk_id() const = 0;

  /// Changes whenever the mapping may have changed: part of the key of caches of tokenised text.
  virtual std::string fingerprint() const = 0;
};

/// Opens a tokenizer of `type` "sentencepiece" (a .model file at `path`) or "bytes" (no file). Throws ConfigError for
/// another type, for a missing file, and for a file that is not of that type.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path, std::string_view type);

}  // namespace maxtext
