#include "checkpoint/coverage.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>

#include "base/error.h"

namespace maxtext {
namespace {

/// Between two neighbouring cuts no block begins or ends, so that each range has one run there, or nothing.
std::vector<ColumnBlock> strips_between_cuts(const Shape& shape, const std::vector<BlockRange>& ranges) {
  std::set<std::int64_t> cuts{0, all_columns(shape).count};
  for (const BlockRange& range : ranges) {
    cuts.insert(range.block.begin);
    cuts.insert(range.block.begin + range.block.count);
  }
  std::vector<ColumnBlock> strips;
  for (auto begin = cuts.begin(), end = std::next(begin); end != cuts.end(); begin = end++) {
    strips.push_back({*begin, *end - *begin});
  }
  return strips;
}

/// What the ranges have of the strip, in its order, and an empty run at its end.
std::vector<BlockRange> runs_in_strip(const BlockRange& strip, const std::vector<BlockRange>& ranges) {
  std::vector<BlockRange> runs;
  for (const BlockRange& range : ranges) {
    const BlockRange run = overlap(range, strip);
    if (run.count > 0) runs.push_back(run);
  }
  std::ranges::sort(runs, {}, &BlockRange::first);
  runs.push_back({strip.block, strip.count, 0});
  return runs;
}

std::string in_columns(const ColumnBlock& strip, const ColumnBlock& all) {
  if (strip == all) return "";
  return fmt::format(" in the columns {} to {}", strip.begin, strip.begin + strip.count - 1);
}

}  // namespace

void check_coverage(std::string_view kind, std::string_view name, const Shape& shape,
                    const std::vector<BlockRange>& ranges) {
  const ColumnBlock all = all_columns(shape);
  for (const ColumnBlock& strip : strips_between_cuts(shape, ranges)) {
    std::int64_t next = 0;
    for (const BlockRange& run : runs_in_strip({strip, 0, element_count(strip, shape)}, ranges)) {
      if (run.first < next) {
        fail("{} '{}': the element {} is stored twice", kind, name, element_within(all, strip, run.first));
      }
      if (run.first > next) {
        fail("{} '{}': nobody stores the elements {} to {}{}", kind, name, element_within(all, strip, next),
             element_within(all, strip, run.first - 1), in_columns(strip, all));
      }
      next = run.first + run.count;
    }
  }
}

}  // namespace maxtext
