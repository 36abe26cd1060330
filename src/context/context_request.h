// What a context plan is built from.
#pragma once

#include <cstdint>
#include <vector>

#include "context/reorder.h"

namespace maxtext {

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
  /// Tokens dealt at a time by `striped`. 1 is the definition of MaxText and Transformer Engine; more make longer runs
  /// of neighbouring tokens at some loss of balance.
  std::int64_t stripe = 1;
};

/// Throws ConfigError for settings and Error for document lengths that a plan cannot express: no rows, a length below
/// 1, documents longer than the row, more tokens than an int32 counts, ...
void check(const ContextPlanRequest& request);

/// sequence_length padded to the next multiple of 2·cp, or as it is for cp = 1. The same for every strategy, so that
/// the shapes of a batch follow from configuration alone.
std::int64_t padded_length(const ContextPlanRequest& request);

}  // namespace maxtext
