// Pairs of neighbouring characters (or bytes) between which some merge can take place. Between others a text can be cut
// before it is encoded.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace maxtext {

class NeighbourSet {
 public:
  NeighbourSet() : slots_(64, kFree) {}

  void add(char32_t left, char32_t right) {
    if (contains(left, right)) return;
    if (left < 256 && right < 256) {
      small_.set(left << 8 | right);
      return;
    }
    if (++size_ * 2 > slots_.size()) grow();
    put(key_of(left, right));
  }

  bool contains(char32_t left, char32_t right) const {
    if (left < 256 && right < 256) return small_.test(left << 8 | right);
    const std::uint64_t key = key_of(left, right);
    return slots_[slot_of(key)] == key;
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};

  static std::uint64_t key_of(char32_t left, char32_t right) { return std::uint64_t{left} << 32 | right; }

  std::size_t slot_of(std::uint64_t key) const {
    std::uint64_t hash = key * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 32;
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = hash & mask;
    while (slots_[slot] != key && slots_[slot] != kFree) slot = (slot + 1) & mask;
    return slot;
  }

  void put(std::uint64_t key) { slots_[slot_of(key)] = key; }

  void grow() {
    const std::vector<std::uint64_t> old = std::move(slots_);
    slots_.assign(old.size() * 4, kFree);
    for (const std::uint64_t key : old) {
      if (key != kFree) put(key);
    }
  }

  std::bitset<65536> small_;  // both below 256
  std::vector<std::uint64_t> slots_;
  std::size_t size_ = 0;
};

}  // namespace maxtext
