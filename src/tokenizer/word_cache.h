// A bounded cache of the tokens of short words: in natural text, a few thousand words are nearly all of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/text_hash.h"

namespace maxtext {

/// One slot per hash, the last word wins; a slot is a cache line. 2 MiB in all, never more; not to be shared by
/// threads.
class WordCache {
 public:
  /// Longer words, and those of more tokens, are not kept.
  static constexpr std::size_t kMaxBytes = 30;
  static constexpr std::size_t kMaxTokens = 8;

  WordCache() : slots_(kSlots) {}

  /// The tokens of the word, or an empty span when it is not here. `word` has 1 to kMaxBytes bytes.
  std::span<const std::int32_t> find(std::string_view word) const {
    const Slot& slot = slots_[text_hash(word) % kSlots];
    const bool same = slot.bytes == word.size() && std::memcmp(slot.word.data(), word.data(), word.size()) == 0;
    return {slot.ids.data(), same ? slot.tokens : std::size_t{0}};
  }

  void put(std::string_view word, std::span<const std::int32_t> ids) {
    if (ids.empty() || ids.size() > kMaxTokens) return;
    Slot& slot = slots_[text_hash(word) % kSlots];
    slot.bytes = static_cast<std::uint8_t>(word.size());
    slot.tokens = static_cast<std::uint8_t>(ids.size());
    std::memcpy(slot.word.data(), word.data(), word.size());
    std::memcpy(slot.ids.data(), ids.data(), ids.size_bytes());
  }

 private:
  static constexpr std::size_t kSlots = 32768;
  struct alignas(64) Slot {
    std::uint8_t bytes = 0;
    std::uint8_t tokens = 0;
    std::array<char, kMaxBytes> word{};
    std::array<std::int32_t, kMaxTokens> ids{};
  };

  std::vector<Slot> slots_;
};

}  // namespace maxtext
