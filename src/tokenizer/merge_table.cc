#include "tokenizer/merge_table.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace maxtext {
namespace {

constexpr std::size_t kShortWord = 48;
constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();

}  // namespace

MergeTable::MergeTable(std::size_t count) : slots_(std::bit_ceil(2 * count + 2)), mask_(slots_.size() - 1) {}

void MergeTable::add(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  std::size_t slot = hash(key) & mask_;
  while (slots_[slot].key != kFree && slots_[slot].key != key) slot = (slot + 1) & mask_;
  slots_[slot] = {key, merge};
}

void Merger::merge(std::vector<std::int32_t>& ids, const MergeTable& merges) {
  if (ids.size() < 2) return;
  if (ids.size() <= kShortWord) {
    merge_short(ids, merges);
  } else {
    merge_long(ids, merges);
  }
}

void Merger::merge_short(std::vector<std::int32_t>& ids, const MergeTable& merges) {
  const auto pair_at = [&](std::size_t i) {
    return merges.find(ids[i], ids[i + 1]).value_or(Merge{.rank = kNoRank, .id = 0});
  };
  pairs_.resize(ids.size() - 1);
  for (std::size_t i = 0; i < pairs_.size(); ++i) pairs_[i] = pair_at(i);
  while (!pairs_.empty()) {
    const auto lowest =
        std::min_element(pairs_.begin(), pairs_.end(), [](const Merge& a, const Merge& b) { return a.rank < b.rank; });
    if (lowest->rank == kNoRank) return;
    const auto i = static_cast<std::size_t>(lowest - pairs_.begin());
    ids[i] = lowest->id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    pairs_.erase(lowest);
    if (i > 0) pairs_[i - 1] = pair_at(i - 1);
    if (i < pairs_.size()) pairs_[i] = pair_at(i);
  }
}

void Merger::merge_long(std::vector<std::int32_t>& ids, const MergeTable& merges) {
  const auto size = static_cast<std::int32_t>(ids.size());
  symbols_.clear();
  heap_.clear();
  for (std::int32_t i = 0; i < size; ++i) {
    symbols_.push_back({ids[static_cast<std::size_t>(i)], i - 1, i + 1 < size ? i + 1 : -1});
  }
  for (std::int32_t i = 0; i + 1 < size; ++i) propose(i, merges);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Candidate candidate = heap_.back();
    heap_.pop_back();
    apply(candidate, merges);
  }
  ids.clear();
  for (const Symbol& symbol : symbols_) {
    if (symbol.id >= 0) ids.push_back(symbol.id);
  }
}

void Merger::propose(std::int32_t place, const MergeTable& merges) {
  const Symbol& left = symbols_[static_cast<std::size_t>(place)];
  const Symbol& right = symbols_[static_cast<std::size_t>(left.next)];
  const auto merge = merges.find(left.id, right.id);
  if (!merge) return;
  const std::uint64_t order = static_cast<std::uint64_t>(merge->rank) << 32 | static_cast<std::uint32_t>(place);
  heap_.push_back({order, left.id, right.id, merge->id});
  std::push_heap(heap_.begin(), heap_.end());
}

void Merger::apply(const Candidate& candidate, const MergeTable& merges) {
  const auto place = static_cast<std::int32_t>(candidate.order & 0xFFFFFFFF);
  Symbol& left = symbols_[static_cast<std::size_t>(place)];
  if (left.id != candidate.left || left.next < 0) return;
  Symbol& right = symbols_[static_cast<std::size_t>(left.next)];
  if (right.id != candidate.right) return;
  left.id = candidate.merged;
  left.next = right.next;
  right.id = -1;
  if (left.next >= 0) symbols_[static_cast<std::size_t>(left.next)].previous = place;
  if (left.previous >= 0) propose(left.previous, merges);
  if (left.next >= 0) propose(place, merges);
}

}  // namespace maxtext
