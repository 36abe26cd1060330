#include "tokenizer/bytes_tokenizer.h"

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace maxtext {

std::vector<std::int32_t> BytesTokenizer::encode(std::string_view text) const {
  if (const auto offset = first_invalid_utf8(text)) fail("text is not UTF-8 at byte {}", *offset);
  std::vector<std::int32_t> ids;
  ids.reserve(text.size());
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

std::string BytesTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size()) {
      fail("token id {} at index {} is outside the vocabulary of {}", ids[i], i, vocab_size());
    }
    if (ids[i] < 256) text.push_back(static_cast<char>(ids[i]));
  }
  return text;
}

}  // namespace maxtext
