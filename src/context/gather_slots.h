// Values per token in original order ↔ values per slot of a device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "context/context_plan.h"

namespace maxtext {

/// result[slot] = values_by_token[plan.tokens(row, context_index)[slot]], and `fill` where the sequence was padded.
/// `values_by_token` has sequence_length or padded_length values; Error otherwise.
std::vector<std::int32_t> gather_slots(const ContextPlan& plan, std::int64_t row, int context_index,
                                       std::span<const std::int32_t> values_by_token, std::int32_t fill);
std::vector<float> gather_slots(const ContextPlan& plan, std::int64_t row, int context_index,
                                std::span<const float> values_by_token, float fill);

/// The inverse for one device, for showing results (logits, losses per token) in original order: copies the `width`
/// values of each slot to values_by_token[token · width ...]. `values_by_slot` is [slots_per_device, width];
/// `values_by_token` is [sequence_length, width], where slots of padding are left out, or [padded_length, width].
void scatter_slots(const ContextPlan& plan, std::int64_t row, int context_index, std::span<const float> values_by_slot,
                   std::int64_t width, std::span<float> values_by_token);

}  // namespace maxtext
