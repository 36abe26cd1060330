#include "tokenizer/utf8.h"

#include <cstring>

namespace maxtext {
namespace {

/// Bytes of plain ASCII at the start of `bytes`, in steps of eight.
std::size_t ascii_prefix(std::string_view bytes) {
  std::size_t count = 0;
  for (; count + 8 <= bytes.size(); count += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + count, 8);
    if ((word & 0x8080808080808080ULL) != 0) break;
  }
  return count;
}

}  // namespace

bool Utf8Validator::feed(std::string_view bytes) {
  std::size_t i = 0;
  while (i < bytes.size()) {
    if (remaining_ == 0) {
      const std::size_t plain = ascii_prefix(bytes.substr(i));
      sequence_start_ += static_cast<std::int64_t>(plain);
      i += plain;
      if (i == bytes.size()) break;
    }
    if (!accept(static_cast<unsigned char>(bytes[i++]))) return false;
  }
  return true;
}

bool Utf8Validator::finish() { return remaining_ == 0; }

bool Utf8Validator::accept(unsigned char byte) {
  if (remaining_ > 0) {
    if (byte < low_ || byte > high_) return false;
    low_ = 0x80;
    high_ = 0xBF;
    ++sequence_length_;
    if (--remaining_ == 0) {
      sequence_start_ += sequence_length_;
      sequence_length_ = 0;
    }
    return true;
  }
  if (byte < 0x80) {
    ++sequence_start_;
    return true;
  }
  if (byte < 0xC2 || byte > 0xF4) return false;
  sequence_length_ = 1;
  remaining_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  // The second byte rules out overlong forms (E0, F0), surrogates (ED) and code points beyond U+10FFFF (F4).
  if (byte == 0xE0) low_ = 0xA0;
  if (byte == 0xED) high_ = 0x9F;
  if (byte == 0xF0) low_ = 0x90;
  if (byte == 0xF4) high_ = 0x8F;
  return true;
}

std::optional<std::int64_t> first_invalid_utf8(std::string_view text) {
  Utf8Validator validator;
  if (validator.feed(text) && validator.finish()) return std::nullopt;
  return validator.error_offset();
}

std::size_t utf8_boundary(std::string_view text, std::size_t index) {
  if (index >= text.size()) return text.size();
  while (index > 0 && (static_cast<unsigned char>(text[index]) & 0xC0) == 0x80) --index;
  return index;
}

char32_t utf8_at(std::string_view text, std::size_t index) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[index + i])); };
  switch (utf8_length(text[index])) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3:
      return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    default:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  }
}

void append_utf8(std::string& text, char32_t character) {
  const auto tail = [&](int shift) { text.push_back(static_cast<char>(0x80 | (character >> shift & 0x3F))); };
  if (character < 0x80) {
    text.push_back(static_cast<char>(character));
  } else if (character < 0x800) {
    text.push_back(static_cast<char>(0xC0 | character >> 6));
    tail(0);
  } else if (character < 0x10000) {
    text.push_back(static_cast<char>(0xE0 | character >> 12));
    tail(6);
    tail(0);
  } else {
    text.push_back(static_cast<char>(0xF0 | character >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string text;
  while (const auto invalid = first_invalid_utf8(bytes)) {
    text += bytes.substr(0, static_cast<std::size_t>(*invalid));
    text += "\xEF\xBF\xBD";
    bytes.remove_prefix(static_cast<std::size_t>(*invalid));
    // As long as the bytes begin a character, they are one part.
    Utf8Validator validator;
    std::size_t part = 1;
    validator.feed(bytes.substr(0, 1));
    while (part < bytes.size() && !validator.finish() && validator.feed(bytes.substr(part, 1))) ++part;
    bytes.remove_prefix(part);
  }
  return text += bytes;
}

}  // namespace maxtext
