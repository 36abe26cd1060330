#include "context/documents.h"

#include <unordered_set>

#include "base/error.h"

namespace maxtext {

ShiftedTargets shift_targets(std::span<const std::int32_t> ids, std::span<const std::int64_t> document_lengths) {
  ShiftedTargets shifted{std::vector<std::int32_t>(ids.size(), 0), std::vector<float>(ids.size(), 0.0F)};
  std::size_t begin = 0;
  for (const std::int64_t length : document_lengths) {
    if (length < 0 || static_cast<std::size_t>(length) > ids.size() - begin) {
      fail("shift_targets: a document of length {} at token {} does not fit a row of {} tokens", length, begin,
           ids.size());
    }
    const std::size_t end = begin + static_cast<std::size_t>(length);
    for (std::size_t t = begin; t + 1 < end; ++t) {
      shifted.targets[t] = ids[t + 1];
      shifted.weights[t] = 1.0F;
    }
    begin = end;
  }
  return shifted;
}

std::vector<std::int64_t> document_lengths_of(std::span<const std::int32_t> segment_ids) {
  std::vector<std::int64_t> lengths;
  std::unordered_set<std::int32_t> seen;
  std::int32_t previous = 0;
  for (std::size_t i = 0; i < segment_ids.size(); ++i) {
    const std::int32_t id = segment_ids[i];
    if (id < 0) fail("segment ids: index {} has id {}, expected 0 (padding) or more", i, id);
    if (id == 0) {
      previous = 0;
      continue;
    }
    if (id == previous) {
      ++lengths.back();
      continue;
    }
    if (i > 0 && previous == 0)
      fail("segment ids: index {} has id {} behind padding, expected only padding there", i, id);
    if (!seen.insert(id).second) {
      fail("segment ids: index {} returns to id {}, expected each document in one piece", i, id);
    }
    lengths.push_back(1);
    previous = id;
  }
  return lengths;
}

}  // namespace maxtext
