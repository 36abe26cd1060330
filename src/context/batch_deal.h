// The rows of a batch dealt by one strategy, with the attention work that follows; and the choice between strategies.
#pragma once

#include <cstdint>
#include <vector>

#include "context/context_request.h"
#include "context/reorder.h"

namespace maxtext {

struct BatchDeal {
  ReorderStrategy strategy = ReorderStrategy::none;
  /// One per row for `balanced`; one for all rows otherwise.
  std::vector<Deal> rows;
  /// Visible (query, key) pairs of all rows [attention type][device].
  std::vector<std::vector<std::int64_t>> area;

  const Deal& row(std::size_t index) const { return rows.size() == 1 ? rows.front() : rows[index]; }
};

/// Σ over attention types of layers · area, per device.
std::vector<double> weighted_area(const BatchDeal& deal, const std::vector<AttentionType>& types);

/// Deals all rows of a checked request by `strategy` (not `automatic`). `balanced` uses the coarsest chunks of
/// balanced_chunk_sizes whose imbalance is at most 0.1%, or those with the least.
BatchDeal deal_batch(const ContextPlanRequest& request, ReorderStrategy strategy);

/// Deals by `request.reorder`, where `automatic` becomes the strategy with the least max/mean of weighted area over the
/// whole batch. Strategies within 0.1% of the least count as equal, for that is less than kernels vary; among equals
/// the one with the longest runs of neighbouring tokens wins: none, dual_chunk_swap, balanced, striped. With one device
/// or nothing visible that is `none`.
BatchDeal choose_deal(const ContextPlanRequest& request);

}  // namespace maxtext
