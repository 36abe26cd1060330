// One token per byte. Needs no training and no file: for tests, and as a baseline.
#pragma once

#include "tokenizer/tokenizer.h"

namespace maxtext {

/// Ids 0-255 are the bytes, 256 is bos, 257 eos; decoding gives the bytes back exactly.
class BytesTokenizer final : public Tokenizer {
 public:
  std::vector<std::int32_t> encode(std::string_view text) const override;
  std::vector<std::int32_t> encode_continuation(std::string_view text) const override { return encode(text); }
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::int32_t vocab_size() const override { return 258; }
  std::optional<std::int32_t> bos_id() const override { return 256; }
  std::optional<std::int32_t> eos_id() const override { return 257; }
  std::optional<std::int32_t> pad_id() const override { return std::nullopt; }
  std::optional<std::int32_t> unk_id() const override { return std::nullopt; }
  std::string fingerprint() const override { return "bytes"; }
};

}  // namespace maxtext
