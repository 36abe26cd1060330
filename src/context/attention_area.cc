#include "context/attention_area.h"

#include <algorithm>

namespace maxtext {

std::int64_t visible_pairs(std::int64_t queries, std::int64_t window) {
  const std::int64_t growing = window > 0 ? std::min(queries, window) : queries;
  return growing * (growing + 1) / 2 + (queries - growing) * window;
}

std::vector<std::int64_t> chunk_areas(std::span<const std::int64_t> document_lengths,
                                      std::span<const std::int64_t> starts, std::int64_t window) {
  std::vector<std::int64_t> areas(starts.empty() ? 0 : starts.size() - 1, 0);
  std::size_t chunk = 0;
  std::int64_t document_begin = 0;
  for (const std::int64_t length : document_lengths) {
    const std::int64_t document_end = document_begin + length;
    std::int64_t token = document_begin;
    while (token < document_end && chunk < areas.size()) {
      const std::int64_t end = std::min(document_end, starts[chunk + 1]);
      areas[chunk] += visible_pairs(end - document_begin, window) - visible_pairs(token - document_begin, window);
      token = end;
      if (end == starts[chunk + 1]) ++chunk;
    }
    document_begin = document_end;
  }
  return areas;
}

}  // namespace maxtext
