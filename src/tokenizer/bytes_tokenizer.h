// One token per byte. Needs no training and no file: for tests, and as a baseline.
#pragma once

#include "tokenizer/tokenizer.h"

namespace maxtext {

/// Ids 0-255 are the bytes, 256 is bos, 257 eos; decoding gives the bytes back exactly. Tokens are spelled "<0x0A>",
/// "<bos>" and "<eos>"; bos is what add_special_tokens adds.
class BytesTokenizer final : public Tokenizer {
 public:
  using Tokenizer::decode;
  using Tokenizer::encode;
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options) const override;
  std::vector<std::int32_t> encode_continuation(std::string_view text) const override { return encode(text); }
  std::string decode(std::span<const std::int32_t> ids, SpecialTokens special) const override;
  std::string id_to_token(std::int32_t id) const override;
  std::optional<std::int32_t> token_to_id(std::string_view token) const override;
  bool has_token(std::int32_t id) const override { return id >= 0 && id < 258; }
  bool is_special(std::int32_t id) const override { return id == 256 || id == 257; }
  std::int32_t vocab_size() const override { return 258; }
  std::optional<std::int32_t> bos_id() const override { return 256; }
  std::optional<std::int32_t> eos_id() const override { return 257; }
  std::optional<std::int32_t> pad_id() const override { return std::nullopt; }
  std::optional<std::int32_t> unk_id() const override { return std::nullopt; }
  std::string fingerprint() const override { return "bytes"; }
};

}  // namespace maxtext
