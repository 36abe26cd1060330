#include "tokenizer/bytes_tokenizer.h"

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace maxtext {

std::vector<std::int32_t> BytesTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (const auto offset = first_invalid_utf8(text)) fail("text is not UTF-8 at byte {}", *offset);
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() + 1);
  if (options.add_special_tokens) ids.push_back(256);
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

std::string BytesTokenizer::decode(std::span<const std::int32_t> ids, SpecialTokens special) const {
  std::string text;
  text.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!has_token(ids[i])) {
      fail("token id {} at index {} is outside the vocabulary of {}", ids[i], i, vocab_size());
    }
    if (ids[i] < 256) {
      text.push_back(static_cast<char>(ids[i]));
    } else if (special == SpecialTokens::keep) {
      text += id_to_token(ids[i]);
    }
  }
  return text;
}

std::string BytesTokenizer::id_to_token(std::int32_t id) const {
  if (!has_token(id)) fail("token id {} is outside the vocabulary of {}", id, vocab_size());
  if (id == 256) return "<bos>";
  if (id == 257) return "<eos>";
  return fmt::format("<0x{:02X}>", id);
}

std::optional<std::int32_t> BytesTokenizer::token_to_id(std::string_view token) const {
  for (std::int32_t id = 0; id < vocab_size(); ++id) {
    if (id_to_token(id) == token) return id;
  }
  return std::nullopt;
}

}  // namespace maxtext
