#include "context/gather_slots.h"

#include <algorithm>

#include "base/error.h"

namespace maxtext {
namespace {

void check_tokens(const ContextPlan& plan, std::size_t count, std::int64_t width) {
  const auto values = static_cast<std::int64_t>(count);
  if (values != plan.sequence_length() * width && values != plan.padded_length() * width) {
    fail("values by token: {} given, expected {} tokens ({} with padding) of {} each", values, plan.sequence_length(),
         plan.padded_length(), width);
  }
}

template <typename T>
std::vector<T> gather(const ContextPlan& plan, std::int64_t row, int context_index, std::span<const T> values, T fill) {
  check_tokens(plan, values.size(), 1);
  std::vector<T> result;
  result.reserve(static_cast<std::size_t>(plan.slots_per_device()));
  for (const std::int32_t token : plan.tokens(row, context_index)) {
    const auto index = static_cast<std::size_t>(token);
    result.push_back(index < values.size() ? values[index] : fill);
  }
  return result;
}

}  // namespace

std::vector<std::int32_t> gather_slots(const ContextPlan& plan, std::int64_t row, int context_index,
                                       std::span<const std::int32_t> values_by_token, std::int32_t fill) {
  return gather(plan, row, context_index, values_by_token, fill);
}

std::vector<float> gather_slots(const ContextPlan& plan, std::int64_t row, int context_index,
                                std::span<const float> values_by_token, float fill) {
  return gather(plan, row, context_index, values_by_token, fill);
}

void scatter_slots(const ContextPlan& plan, std::int64_t row, int context_index, std::span<const float> values_by_slot,
                   std::int64_t width, std::span<float> values_by_token) {
  if (width < 1) fail("scatter_slots: width is {}, expected at least 1", width);
  check_tokens(plan, values_by_token.size(), width);
  if (static_cast<std::int64_t>(values_by_slot.size()) != plan.slots_per_device() * width) {
    fail("values by slot: {} given, expected {} slots of {} each", values_by_slot.size(), plan.slots_per_device(),
         width);
  }
  const auto size = static_cast<std::size_t>(width);
  const std::span<const std::int32_t> tokens = plan.tokens(row, context_index);
  for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
    const std::size_t to = static_cast<std::size_t>(tokens[slot]) * size;
    if (to >= values_by_token.size()) continue;
    const auto from = values_by_slot.subspan(slot * size, size);
    std::copy(from.begin(), from.end(), values_by_token.begin() + static_cast<std::ptrdiff_t>(to));
  }
}

}  // namespace maxtext
