#include "context/context_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "context/balanced.h"
#include "context/hash.h"

namespace maxtext {
namespace {

// Fills one row of position and segment ids, which hold zeros.
void number_documents(const std::vector<std::int64_t>& lengths, std::span<std::int32_t> positions,
                      std::span<std::int32_t> segments) {
  std::size_t begin = 0;
  std::int32_t segment = 0;
  for (const std::int64_t length : lengths) {
    if (length == 0) continue;
    const auto count = static_cast<std::size_t>(length);
    const auto document = positions.subspan(begin, count);
    std::iota(document.begin(), document.end(), 0);
    std::fill_n(segments.begin() + static_cast<std::ptrdiff_t>(begin), count, ++segment);
    begin += count;
  }
}

// Fills one row of tokens [cp][slots] and its inverse. Chunks are visited in ascending order, so each device's tokens
// ascend too.
void place_tokens(const Deal& deal, std::span<std::int32_t> tokens, std::span<std::int32_t> gathered_slots) {
  std::vector<std::size_t> next(static_cast<std::size_t>(deal.grid.devices));
  for (std::size_t d = 0; d < next.size(); ++d) next[d] = d * static_cast<std::size_t>(deal.grid.slots);
  for (std::size_t i = 0; i < deal.device.size(); ++i) {
    const auto chunk = static_cast<std::int64_t>(i);
    std::size_t& slot = next[static_cast<std::size_t>(deal.device[i])];
    for (std::int64_t token = deal.grid.start(chunk); token < deal.grid.start(chunk + 1); ++token, ++slot) {
      tokens[slot] = static_cast<std::int32_t>(token);
      gathered_slots[static_cast<std::size_t>(token)] = static_cast<std::int32_t>(slot);
    }
  }
}

ContextPlanRequest checked(ContextPlanRequest request) {
  check(request);
  return request;
}

}  // namespace

ContextPlan::ContextPlan(ContextPlanRequest request)
    : request_(checked(std::move(request))), deal_(choose_deal(request_)) {
  const auto length = static_cast<std::size_t>(padded_length());
  const std::size_t total = length * request_.document_lengths.size();
  for (auto* array : {&tokens_, &gathered_slots_, &position_ids_, &segment_ids_}) array->resize(total);
  for (std::size_t row = 0; row < request_.document_lengths.size(); ++row) {
    const auto part = [&](std::vector<std::int32_t>& array) { return std::span(array).subspan(row * length, length); };
    place_tokens(deal_.row(row), part(tokens_), part(gathered_slots_));
    number_documents(request_.document_lengths[row], part(position_ids_), part(segment_ids_));
  }
}

std::int64_t ContextPlan::rows() const { return static_cast<std::int64_t>(request_.document_lengths.size()); }
std::int64_t ContextPlan::sequence_length() const { return request_.sequence_length; }
std::int64_t ContextPlan::padded_length() const { return maxtext::padded_length(request_); }
std::int64_t ContextPlan::slots_per_device() const { return padded_length() / context_parallelism(); }
int ContextPlan::context_parallelism() const { return request_.context_parallelism; }
ReorderStrategy ContextPlan::strategy() const { return deal_.strategy; }
const std::vector<AttentionType>& ContextPlan::attention_types() const { return request_.attention_types; }

std::size_t ContextPlan::row_offset(std::int64_t row) const {
  if (row < 0 || row >= rows()) fail("context plan: row {} is not one of its {} rows", row, rows());
  return static_cast<std::size_t>(row * padded_length());
}

std::size_t ContextPlan::device_offset(std::int64_t row, int context_index) const {
  if (context_index < 0 || context_index >= context_parallelism()) {
    fail("context plan: device {} is not one of the {} of its context axis", context_index, context_parallelism());
  }
  return row_offset(row) + static_cast<std::size_t>(context_index * slots_per_device());
}

const std::vector<std::int64_t>& ContextPlan::document_lengths(std::int64_t row) const {
  row_offset(row);
  return request_.document_lengths[static_cast<std::size_t>(row)];
}

std::span<const std::int32_t> ContextPlan::tokens(std::int64_t row, int context_index) const {
  return std::span(tokens_).subspan(device_offset(row, context_index), static_cast<std::size_t>(slots_per_device()));
}

std::span<const std::int32_t> ContextPlan::gathered_slots(std::int64_t row) const {
  return std::span(gathered_slots_).subspan(row_offset(row), static_cast<std::size_t>(padded_length()));
}

std::span<const std::int32_t> ContextPlan::position_ids(std::int64_t row) const {
  return std::span(position_ids_).subspan(row_offset(row), static_cast<std::size_t>(padded_length()));
}

std::span<const std::int32_t> ContextPlan::segment_ids(std::int64_t row) const {
  return std::span(segment_ids_).subspan(row_offset(row), static_cast<std::size_t>(padded_length()));
}

KeyIntervals ContextPlan::key_intervals(std::int64_t row, int context_index, std::size_t type) const {
  const std::span<const std::int32_t> mine = tokens(row, context_index);
  const std::span<const std::int32_t> positions = position_ids(row);
  const std::span<const std::int32_t> segments = segment_ids(row);
  if (type >= request_.attention_types.size()) {
    fail("context plan: attention type {} is not one of its {}", type, request_.attention_types.size());
  }
  const std::int64_t window = request_.attention_types[type].window;
  KeyIntervals keys{std::vector<std::int32_t>(mine.size(), 0), std::vector<std::int32_t>(mine.size(), 0)};
  for (std::size_t slot = 0; slot < mine.size(); ++slot) {
    const std::int32_t token = mine[slot];
    if (segments[static_cast<std::size_t>(token)] == 0) continue;
    const std::int32_t earlier = positions[static_cast<std::size_t>(token)];
    const bool cut = window > 0 && window <= earlier;
    keys.begin[slot] = token - (cut ? static_cast<std::int32_t>(window - 1) : earlier);
    keys.end[slot] = token + 1;
  }
  return keys;
}

std::vector<std::int64_t> ContextPlan::area(std::size_t type) const {
  if (type >= deal_.area.size()) fail("context plan: attention type {} is not one of its {}", type, deal_.area.size());
  return deal_.area[type];
}

std::vector<double> ContextPlan::weighted_area() const {
  return maxtext::weighted_area(deal_, request_.attention_types);
}

double ContextPlan::imbalance() const { return max_over_mean(weighted_area()); }

std::uint64_t ContextPlan::hash() const {
  Hasher hasher;
  hasher.add(static_cast<std::uint64_t>(rows()));
  hasher.add(static_cast<std::uint64_t>(sequence_length()));
  hasher.add(static_cast<std::uint64_t>(context_parallelism()));
  hasher.add(static_cast<std::uint64_t>(strategy()));
  hasher.add(static_cast<std::uint64_t>(request_.attention_types.size()));
  for (const AttentionType& type : request_.attention_types) {
    hasher.add(static_cast<std::uint64_t>(type.window));
    hasher.add(type.layers);
  }
  for (const auto* array : {&tokens_, &position_ids_, &segment_ids_}) hasher.add(std::span<const std::int32_t>(*array));
  return hasher.value();
}

}  // namespace maxtext
