// Strict UTF-8 (Unicode 15, table 3-7): no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace maxtext {

/// Validates a stream that arrives in pieces; a character may straddle two of them.
class Utf8Validator {
 public:
  /// True when `bytes` continue a valid stream. After a false, `error_offset` is the offset, counted from the start of
  /// the stream, of the first byte of the sequence that is not UTF-8; the validator must not be fed again.
  bool feed(std::string_view bytes);

  /// Call at the end of the stream: false when it ends within a character, whose first byte is then `error_offset`.
  bool finish();

  std::int64_t error_offset() const { return sequence_start_; }

 private:
  bool accept(unsigned char byte);

  std::int64_t sequence_start_ = 0;  // offset of the first byte of the current, or the next, character
  int sequence_length_ = 0;          // bytes of the current character seen so far; 0 between characters
  int remaining_ = 0;                // continuation bytes still to come
  unsigned char low_ = 0x80;         // bounds of the next continuation byte
  unsigned char high_ = 0xBF;
};

/// The offset of the first ill-formed sequence of a whole text, or nothing when the text is valid.
std::optional<std::int64_t> first_invalid_utf8(std::string_view text);

/// The largest index <= `index` at which valid `text` can be cut without splitting a character.
std::size_t utf8_boundary(std::string_view text, std::size_t index);

/// Bytes of the character whose first byte this is, in valid text.
inline std::size_t utf8_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// The character at `index` of valid text, where one starts.
char32_t utf8_at(std::string_view text, std::size_t index);

void append_utf8(std::string& text, char32_t character);

/// The bytes with U+FFFD in place of each maximal ill-formed part, as WHATWG and Rust's from_utf8_lossy do it.
std::string replace_invalid_utf8(std::string_view bytes);

}  // namespace maxtext
