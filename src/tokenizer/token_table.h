// The tokens of a vocabulary, by id and by spelling.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maxtext {

/// Spellings lie behind one another in one string, and the index is an open-addressing table of ids: about 30 bytes per
/// token, and no allocation for each.
class TokenTable {
 public:
  /// Ids above this are refused: tables are as long as the largest id.
  static constexpr std::int64_t kLargestId = (1 << 22) - 1;

  /// Adds a token. Returns false, and changes nothing, when its spelling or its id is taken, or the id is out of range.
  bool add(std::string_view token, std::int64_t id);

  std::optional<std::int32_t> find(std::string_view token) const;

  bool has(std::int32_t id) const {
    return id >= 0 && id < limit() && places_[static_cast<std::size_t>(id)].length != kNone;
  }

  /// The spelling of an id that is there.
  std::string_view token(std::int32_t id) const {
    const Place place = places_[static_cast<std::size_t>(id)];
    return {spellings_.data() + place.offset, place.length};
  }

  /// Number of tokens.
  std::int32_t size() const { return size_; }

  /// One more than the largest id.
  std::int32_t limit() const { return static_cast<std::int32_t>(places_.size()); }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct Place {
    std::uint32_t offset = 0;
    std::uint32_t length = kNone;
  };

  std::size_t slot_of(std::string_view token) const;
  void grow();

  std::string spellings_;
  std::vector<Place> places_;        // by id
  std::vector<std::int32_t> slots_;  // id or -1; a power of two of them, at most half full
  std::int32_t size_ = 0;
};

}  // namespace maxtext
