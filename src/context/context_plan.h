// ContextPlan: the one place that knows where a token is. Built once per batch, equal on every process, from
// (document lengths, attention types with their layer counts, context parallelism, reorder strategy).
// Everything else speaks of original token indices; nobody derives a position from a rank or a slot.
//
// Terms: a *token* is an index 0..S-1 in the original order of a row; a *slot* is an index 0..S/cp-1 on a device;
// a *gathered slot* is device·(S/cp) + slot, the place of a token after keys and values were all-gathered.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace maxtext {

/// How chunks of the sequence are dealt to the devices of the context axis.
enum class ReorderStrategy {
  none,             ///< device i gets the i-th contiguous part
  dual_chunk_swap,  ///< 2·cp chunks, device i gets i and 2cp-1-i (MaxText's, Megatron's zigzag)
  striped,          ///< single tokens (or small chunks) dealt round robin
  balanced,         ///< fixed chunks, equal counts per device, largest attention area first
  automatic         ///< the one of the above with the least max/mean area; ties go to the order above
};

/// One kind of attention in the model: `window` keys including the query itself (0: all earlier ones), and how many
/// layers have it, which is its weight when work is balanced.
struct AttentionType {
  std::int64_t window = 0;
  double layers = 1;
  bool operator==(const AttentionType&) const = default;
};

struct ContextPlanRequest {
  /// Tokens per row before padding, at least 1.
  std::int64_t sequence_length = 0;
  /// For each row the lengths of its packed documents in order (zero lengths allowed); what they leave of
  /// sequence_length is padding at the tail.
  std::vector<std::vector<std::int64_t>> document_lengths;
  std::vector<AttentionType> attention_types = {AttentionType{}};
  int context_parallelism = 1;
  ReorderStrategy reorder = ReorderStrategy::automatic;
};

/// The half-open interval of keys that each query of a device may see, in original token indices, per attention type.
/// An interval covers causality, window, documents and padding at once: a query sees key j iff begin <= j < end.
/// Padding and queries without keys have begin == end.
struct KeyIntervals {
  std::vector<std::int32_t> begin;
  std::vector<std::int32_t> end;
};

class ContextPlan {
 public:
  /// Throws Error for what cannot be expressed (documents longer than the row, no rows, cp < 1, ...).
  explicit ContextPlan(ContextPlanRequest request);

  std::int64_t rows() const;
  /// sequence_length padded at its tail so that every device has the same number of slots.
  std::int64_t padded_length() const;
  std::int64_t slots_per_device() const;
  int context_parallelism() const;
  /// The strategy in use: `automatic` resolved.
  ReorderStrategy strategy() const;
  const std::vector<AttentionType>& attention_types() const;

  /// Original token of each slot of device `context_index` (coordinate on the context axis) in `row`.
  std::span<const std::int32_t> tokens(std::int64_t row, int context_index) const;
  /// For each original token 0..padded_length-1 of `row`, its gathered slot. Inverse of `tokens`.
  std::span<const std::int32_t> gathered_slots(std::int64_t row) const;
  /// Position within its document (restarts per document; 0 in padding) and segment id (1-based, 0 = padding) of each
  /// original token 0..padded_length-1 of `row`.
  std::span<const std::int32_t> position_ids(std::int64_t row) const;
  std::span<const std::int32_t> segment_ids(std::int64_t row) const;

  /// Key intervals of the slots of a device for attention type `type`.
  KeyIntervals key_intervals(std::int64_t row, int context_index, std::size_t type) const;

  /// Visible (query, key) pairs on each device of the context axis, all rows, for one attention type; and weighed by
  /// layer counts over all types.
  std::vector<std::int64_t> area(std::size_t type) const;
  std::vector<double> weighted_area() const;
  /// max / mean of weighted_area; 1 when nothing is visible.
  double imbalance() const;

  /// A hash of everything above, to prove at start-up that all processes built the same plan.
  std::uint64_t hash() const;
};

/// Shifts targets left within documents: targets[t] = ids[t+1], and weight 0 for the last token of each document and
/// for padding, 1 elsewhere. Done in original order, before any permutation or sharding.
struct ShiftedTargets {
  std::vector<std::int32_t> targets;
  std::vector<float> weights;
};
ShiftedTargets shift_targets(std::span<const std::int32_t> ids, std::span<const std::int64_t> document_lengths);

/// Document lengths of a row of segment ids (contiguous runs; 0 = padding, allowed only at the tail). Throws Error
/// naming the index where an id returns after another one or padding is followed by a token.
std::vector<std::int64_t> document_lengths_of(std::span<const std::int32_t> segment_ids);

std::string_view reorder_strategy_name(ReorderStrategy strategy);

}  // namespace maxtext
