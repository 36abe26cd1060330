// Character properties and normal forms of Unicode, from utf8proc (Unicode 15). Text is valid UTF-8 throughout.
#pragma once

#include <string>
#include <string_view>

namespace maxtext {

/// White_Space: what Rust's char::is_whitespace and the `\s` of regular expressions mean.
bool is_white_space(char32_t character);

/// General categories Nd, Nl and No.
bool is_numeric(char32_t character);

/// General categories P*, and the ASCII symbols $ + < = > ^ ` | ~.
bool is_punctuation(char32_t character);

/// Each character in lower case for itself, whatever stands around it (a final sigma is a sigma).
std::string lower_case(std::string_view text);

enum class NormalForm { nfc, nfd, nfkc, nfkd };

/// The text in a normal form (Unicode Standard Annex 15). Text of characters below U+0300 is its own NFC and costs a
/// scan; in other text, only the runs around other characters are worked on.
std::string normalize(std::string_view text, NormalForm form);

}  // namespace maxtext
