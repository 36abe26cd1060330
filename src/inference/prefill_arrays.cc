#include "inference/prefill_arrays.h"

#include <algorithm>
#include <numeric>

namespace maxtext {
namespace {

/// Slots read are a multiple of this, so that the shapes of a long prompt's chunks are few.
constexpr std::int64_t kGranule = 256;

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

void count_area(PrefillArrays& arrays) {
  for (std::size_t i = 0; i < arrays.key_begin.size(); ++i) arrays.area += arrays.key_end[i] - arrays.key_begin[i];
}

}  // namespace

PrefillArrays full_prefill_arrays(std::int64_t first, std::int64_t tokens, std::int64_t capacity, std::int64_t page,
                                  int rank, int group_size) {
  PrefillArrays arrays;
  const bool owned = holds_position(first, page, rank, group_size);
  arrays.position = owned ? narrow(local_positions(first, page, rank, group_size)) : narrow(-tokens);
  // A device that holds nothing yet reads slots that nobody sees: kernels want at least one key.
  const std::int64_t used = std::max<std::int64_t>(1, local_positions(first + tokens, page, rank, group_size));
  const std::int64_t read = std::min(capacity, (used + kGranule - 1) / kGranule * kGranule);
  arrays.slots.resize(static_cast<std::size_t>(read));
  std::iota(arrays.slots.begin(), arrays.slots.end(), 0);
  for (std::int64_t t = 0; t < tokens; ++t) {
    arrays.key_begin.push_back(0);
    arrays.key_end.push_back(narrow(local_positions(first + t + 1, page, rank, group_size)));
  }
  count_area(arrays);
  return arrays;
}

PrefillArrays ring_prefill_arrays(std::int64_t first, std::int64_t tokens, std::int64_t window) {
  PrefillArrays arrays;
  arrays.position = narrow(first);
  const std::int64_t old = std::min(first, window);
  const std::int64_t base = first - old;  // the position of key 0
  for (std::int64_t position = base; position < first; ++position) arrays.slots.push_back(narrow(position % window));
  for (std::int64_t t = 0; t < tokens; ++t) {
    arrays.slots.push_back(narrow(window + t));
    arrays.key_begin.push_back(narrow(std::max<std::int64_t>(0, old + t + 1 - window)));
    arrays.key_end.push_back(narrow(old + t + 1));
  }
  // The rest of a ring that is not full: no query sees it, whatever its slots hold.
  for (std::int64_t slot = old; slot < window; ++slot) arrays.slots.push_back(narrow(slot));
  count_area(arrays);
  return arrays;
}

PrefillArrays padded(PrefillArrays arrays, std::int64_t tokens, std::int64_t keys) {
  arrays.key_begin.resize(static_cast<std::size_t>(tokens), arrays.key_begin.back());
  arrays.key_end.resize(static_cast<std::size_t>(tokens), arrays.key_end.back());
  // In both kinds of arrays the slots are all up to some number, so that the next ones follow.
  while (std::ssize(arrays.slots) < keys) arrays.slots.push_back(narrow(std::ssize(arrays.slots)));
  return arrays;
}

}  // namespace maxtext
