#include "context/reorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace maxtext {
namespace {

constexpr std::array<std::pair<ReorderStrategy, std::string_view>, 5> kNames = {{
    {ReorderStrategy::none, "none"},
    {ReorderStrategy::dual_chunk_swap, "dual_chunk_swap"},
    {ReorderStrategy::striped, "striped"},
    {ReorderStrategy::balanced, "balanced"},
    {ReorderStrategy::automatic, "auto"},
}};

std::int32_t mirrored(std::int64_t chunk, int devices) {
  return static_cast<std::int32_t>(std::min<std::int64_t>(chunk, 2 * devices - 1 - chunk));
}

}  // namespace

std::string_view reorder_strategy_name(ReorderStrategy strategy) {
  for (const auto& [value, name] : kNames) {
    if (value == strategy) return name;
  }
  fail("reorder strategy {} does not exist", static_cast<int>(strategy));
}

ReorderStrategy parse_reorder_strategy(std::string_view name) {
  std::string allowed;
  for (const auto& [value, known] : kNames) {
    if (known == name) return value;
    allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", known);
  }
  fail_config("context_parallel_reorder_strategy: '{}' is not one of {}", name, allowed);
}

std::vector<std::int64_t> ChunkGrid::starts() const {
  std::vector<std::int64_t> result(static_cast<std::size_t>(chunks() + 1));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = start(static_cast<std::int64_t>(i));
  return result;
}

Deal deal_fixed(ReorderStrategy strategy, std::int64_t slots, int devices, std::int64_t stripe) {
  Deal deal{ChunkGrid{slots, devices, slots}, {}};
  if (devices == 1) {
    deal.device = {0};
    return deal;
  }
  if (strategy == ReorderStrategy::dual_chunk_swap) {
    if (slots % 2 != 0) fail("dual_chunk_swap needs an even number of slots per device, not {}", slots);
    deal.grid.chunk = slots / 2;
  } else if (strategy == ReorderStrategy::striped) {
    deal.grid.chunk = std::min(stripe, slots);
  } else if (strategy != ReorderStrategy::none) {
    fail("{} depends on the documents of a row", reorder_strategy_name(strategy));
  }
  deal.device.resize(static_cast<std::size_t>(deal.grid.chunks()));
  for (std::size_t i = 0; i < deal.device.size(); ++i) {
    const auto chunk = static_cast<std::int64_t>(i);
    deal.device[i] = strategy == ReorderStrategy::dual_chunk_swap ? mirrored(chunk, devices)
                                                                  : static_cast<std::int32_t>(chunk % devices);
  }
  return deal;
}

}  // namespace maxtext
