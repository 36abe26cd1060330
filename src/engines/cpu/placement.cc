#include "engines/cpu/placement.h"

#include <algorithm>
#include <iterator>

namespace maxtext {
namespace {

constexpr std::int64_t kAlignment = 64;

}  // namespace

std::int64_t Placement::rounded(std::int64_t bytes) {
  return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

void Placement::insert(std::int64_t offset, std::int64_t bytes) {
  free_by_offset_.emplace(offset, bytes);
  free_by_size_.emplace(bytes, offset);
}

void Placement::erase(std::map<std::int64_t, std::int64_t>::iterator range) {
  free_by_size_.erase({range->second, range->first});
  free_by_offset_.erase(range);
}

std::optional<std::int64_t> Placement::take(std::int64_t bytes) {
  bytes = rounded(bytes);
  const auto best = free_by_size_.lower_bound({bytes, 0});
  if (best == free_by_size_.end()) return std::nullopt;
  const auto [length, offset] = *best;
  erase(free_by_offset_.find(offset));
  if (length > bytes) insert(offset + bytes, length - bytes);
  used_ += bytes;
  touched_ = std::max(touched_, offset + bytes);
  return offset;
}

void Placement::give_back(std::int64_t offset, std::int64_t bytes) {
  bytes = rounded(bytes);
  used_ -= bytes;
  auto next = free_by_offset_.lower_bound(offset);
  if (next != free_by_offset_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      bytes += previous->second;
      erase(previous);
    }
  }
  if (next != free_by_offset_.end() && offset + bytes == next->first) {
    bytes += next->second;
    erase(next);
  }
  insert(offset, bytes);
}

}  // namespace maxtext
