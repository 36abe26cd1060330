// GPT-2's byte level: every byte is written as one printable character, so that any text is a string over 256
// characters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace maxtext {

/// The character that stands for a byte: the byte itself where Latin-1 prints it, else U+0100 and on, in order.
char32_t byte_character(std::uint8_t byte);

/// The byte that a character stands for; nothing for characters outside the alphabet.
std::optional<std::uint8_t> character_byte(char32_t character);

/// The bytes, each as its character.
std::string to_byte_characters(std::string_view bytes);

/// The bytes that a text over the alphabet stands for; nothing when it has another character.
std::optional<std::string> from_byte_characters(std::string_view text);

}  // namespace maxtext
