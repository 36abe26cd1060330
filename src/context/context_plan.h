// ContextPlan: the one place that knows where a token is. Built once per batch, equal on every process, from
// (document lengths, attention types with their layer counts, context parallelism, reorder strategy).
// Everything else speaks of original token indices; nobody derives a position from a rank or a slot.
//
// Terms: a *token* is an index 0..S-1 in the original order of a row; a *slot* is an index 0..S/cp-1 on a device;
// a *gathered slot* is device·(S/cp) + slot, the place of a token after keys and values were all-gathered.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "context/batch_deal.h"
#include "context/context_request.h"
#include "context/documents.h"
#include "context/reorder.h"

namespace maxtext {

/// The half-open interval of keys that each query of a device may see, in original token indices, per attention type.
/// An interval covers causality, window, documents and padding at once: a query sees key j iff begin <= j < end.
/// Padding and queries without keys have begin == end.
struct KeyIntervals {
  std::vector<std::int32_t> begin;
  std::vector<std::int32_t> end;
};

/// Memory: 16 bytes per token. Building it costs O(tokens + rows · chunks · cp): about 0.1 s for a row of 2²⁰ tokens on
/// 256 devices.
class ContextPlan {
 public:
  /// Throws ConfigError or Error for what cannot be expressed (see check).
  explicit ContextPlan(ContextPlanRequest request);

  std::int64_t rows() const;
  /// Tokens per row before padding.
  std::int64_t sequence_length() const;
  /// sequence_length padded at its tail so that every device has the same number of slots: to a multiple of 2·cp, for
  /// cp = 1 not at all. Independent of strategy and documents.
  std::int64_t padded_length() const;
  std::int64_t slots_per_device() const;
  int context_parallelism() const;
  /// The strategy in use: `automatic` resolved.
  ReorderStrategy strategy() const;
  const std::vector<AttentionType>& attention_types() const;
  const std::vector<std::int64_t>& document_lengths(std::int64_t row) const;

  /// Original token of each slot [slots_per_device] of device `context_index` (coordinate on the context axis) in
  /// `row`; ascending, whatever the strategy, so that kernels meet long runs.
  std::span<const std::int32_t> tokens(std::int64_t row, int context_index) const;
  /// For each original token 0..padded_length-1 of `row`, its gathered slot. Inverse of `tokens`.
  std::span<const std::int32_t> gathered_slots(std::int64_t row) const;
  /// Position within its document (restarts per document; 0 in padding) and segment id (1, 2, ... over the documents
  /// that are not empty; 0 = padding) of each original token 0..padded_length-1 of `row`.
  std::span<const std::int32_t> position_ids(std::int64_t row) const;
  std::span<const std::int32_t> segment_ids(std::int64_t row) const;

  /// Key intervals of the slots of a device for attention type `type`: the query at token t of a document that begins
  /// at token a sees [max(a, t - window + 1), t + 1), or [a, t + 1) without a window; padding has [0, 0).
  KeyIntervals key_intervals(std::int64_t row, int context_index, std::size_t type) const;

  /// Visible (query, key) pairs on each device of the context axis, all rows, for one attention type; and weighed by
  /// layer counts over all types.
  std::vector<std::int64_t> area(std::size_t type) const;
  std::vector<double> weighted_area() const;
  /// max / mean of weighted_area; 1 when nothing is visible.
  double imbalance() const;

  /// A hash of everything above, to prove at start-up that all processes built the same plan.
  std::uint64_t hash() const;

 private:
  std::size_t row_offset(std::int64_t row) const;
  std::size_t device_offset(std::int64_t row, int context_index) const;

  ContextPlanRequest request_;
  BatchDeal deal_;
  // [rows][padded_length] each; tokens_ is [rows][cp][slots].
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> gathered_slots_;
  std::vector<std::int32_t> position_ids_;
  std::vector<std::int32_t> segment_ids_;
};

}  // namespace maxtext
