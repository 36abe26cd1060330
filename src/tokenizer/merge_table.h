// The merges of byte pair encoding and their application to a word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace maxtext {

/// What two neighbouring tokens merge into, and when: lower ranks go first.
struct Merge {
  std::uint32_t rank = 0;
  std::int32_t id = 0;
};

/// (left id, right id) → Merge. Open addressing, at most half full, 16 bytes a slot.
class MergeTable {
 public:
  /// Room for `count` merges.
  explicit MergeTable(std::size_t count = 0);

  /// A pair added again takes the later merge. No more pairs than there is room for.
  void add(std::int32_t left, std::int32_t right, Merge merge);

  std::optional<Merge> find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t slot = hash(key) & mask_;; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return slots_[slot].merge;
      if (slots_[slot].key == kFree) return std::nullopt;
    }
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }
  static std::size_t hash(std::uint64_t key) {
    key *= 0x9E3779B97F4A7C15ULL;
    return static_cast<std::size_t>(key ^ (key >> 32));
  }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
};

/// Merges the tokens of a word until no two neighbours merge: always the pair of lowest rank, the leftmost where
/// several have it. One merger per thread; it keeps its memory.
class Merger {
 public:
  /// Replaces `ids` by the merged ones. Words of up to 48 tokens take a scan per merge (everything lies in one or two
  /// cache lines); longer ones a heap, n log n.
  void merge(std::vector<std::int32_t>& ids, const MergeTable& merges);

 private:
  /// A pair that could merge: its rank, then the place of its left token, as one number; and the tokens, to tell
  /// whether they are still there when its turn comes.
  struct Candidate {
    std::uint64_t order;
    std::int32_t left;
    std::int32_t right;
    std::int32_t merged;
    bool operator<(const Candidate& other) const { return order > other.order; }
  };
  struct Symbol {
    std::int32_t id;  // -1: it went into the one before it
    std::int32_t previous;
    std::int32_t next;
  };

  void merge_short(std::vector<std::int32_t>& ids, const MergeTable& merges);
  void merge_long(std::vector<std::int32_t>& ids, const MergeTable& merges);
  void propose(std::int32_t place, const MergeTable& merges);
  void apply(const Candidate& candidate, const MergeTable& merges);

  std::vector<Merge> pairs_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace maxtext
