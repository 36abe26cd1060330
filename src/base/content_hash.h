// A fingerprint that tells whether a file or a set of options is still the one that a cache was made from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace maxtext {

inline constexpr std::uint64_t kContentHashStart = 0xcbf29ce484222325ULL;

/// FNV-1a over the bytes, 64 bits, continuing from `hash`. Against accidents, not against an adversary.
std::uint64_t content_hash(std::string_view bytes, std::uint64_t hash = kContentHashStart);

/// 16 hexadecimal digits.
std::string hash_text(std::uint64_t hash);

}  // namespace maxtext
