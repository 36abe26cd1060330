#include "context/batch_deal.h"

#include <algorithm>
#include <utility>

#include "context/attention_area.h"
#include "context/balanced.h"

namespace maxtext {
namespace {

// Imbalances that differ by less than this are equal.
constexpr double kTie = 1e-3;

using Areas = std::vector<std::vector<std::int64_t>>;

std::size_t device_count(const ContextPlanRequest& request) {
  return static_cast<std::size_t>(request.context_parallelism);
}

std::int64_t slots_of(const ContextPlanRequest& request) {
  return padded_length(request) / request.context_parallelism;
}

// [attention type][chunk] for one row.
Areas areas_of_row(const ContextPlanRequest& request, std::size_t row, const std::vector<std::int64_t>& starts) {
  Areas areas;
  for (const AttentionType& type : request.attention_types) {
    areas.push_back(chunk_areas(request.document_lengths[row], starts, type.window));
  }
  return areas;
}

void add_to_devices(const Deal& deal, const Areas& chunks, Areas& devices) {
  for (std::size_t type = 0; type < chunks.size(); ++type) {
    for (std::size_t i = 0; i < deal.device.size(); ++i) {
      devices[type][static_cast<std::size_t>(deal.device[i])] += chunks[type][i];
    }
  }
}

std::vector<double> weigh(const Areas& areas, const std::vector<AttentionType>& types) {
  std::vector<double> weighted(areas.front().size(), 0.0);
  for (std::size_t type = 0; type < areas.size(); ++type) {
    for (std::size_t i = 0; i < weighted.size(); ++i) {
      weighted[i] += types[type].layers * static_cast<double>(areas[type][i]);
    }
  }
  return weighted;
}

BatchDeal empty_deal(const ContextPlanRequest& request, ReorderStrategy strategy) {
  const std::vector<std::int64_t> zeros(device_count(request), 0);
  return {strategy, {}, Areas(request.attention_types.size(), zeros)};
}

BatchDeal deal_by_chunk(const ContextPlanRequest& request, std::int64_t chunk) {
  BatchDeal result = empty_deal(request, ReorderStrategy::balanced);
  const ChunkGrid grid{slots_of(request), request.context_parallelism, chunk};
  const std::vector<std::int64_t> starts = grid.starts();
  std::vector<double> load(device_count(request), 0.0);
  for (std::size_t row = 0; row < request.document_lengths.size(); ++row) {
    const Areas chunks = areas_of_row(request, row, starts);
    result.rows.push_back(deal_balanced(grid, weigh(chunks, request.attention_types), load));
    add_to_devices(result.rows.back(), chunks, result.area);
  }
  return result;
}

double imbalance(const BatchDeal& deal, const ContextPlanRequest& request) {
  return max_over_mean(weighted_area(deal, request.attention_types));
}

BatchDeal deal_by_area(const ContextPlanRequest& request) {
  std::vector<std::int64_t> sizes = balanced_chunk_sizes(slots_of(request));
  if (request.context_parallelism == 1) sizes = {slots_of(request)};
  BatchDeal best = deal_by_chunk(request, sizes.front());
  for (std::size_t i = 1; i < sizes.size() && imbalance(best, request) > 1 + kTie; ++i) {
    BatchDeal finer = deal_by_chunk(request, sizes[i]);
    if (imbalance(finer, request) < imbalance(best, request)) best = std::move(finer);
  }
  return best;
}

}  // namespace

std::vector<double> weighted_area(const BatchDeal& deal, const std::vector<AttentionType>& types) {
  return weigh(deal.area, types);
}

BatchDeal deal_batch(const ContextPlanRequest& request, ReorderStrategy strategy) {
  if (strategy == ReorderStrategy::balanced) return deal_by_area(request);
  BatchDeal result = empty_deal(request, strategy);
  result.rows.push_back(deal_fixed(strategy, slots_of(request), request.context_parallelism, request.stripe));
  const std::vector<std::int64_t> starts = result.rows.front().grid.starts();
  for (std::size_t row = 0; row < request.document_lengths.size(); ++row) {
    add_to_devices(result.rows.front(), areas_of_row(request, row, starts), result.area);
  }
  return result;
}

BatchDeal choose_deal(const ContextPlanRequest& request) {
  if (request.reorder != ReorderStrategy::automatic) return deal_batch(request, request.reorder);
  std::vector<BatchDeal> candidates;
  double least = 0;
  for (const ReorderStrategy strategy :
       {ReorderStrategy::none, ReorderStrategy::dual_chunk_swap, ReorderStrategy::balanced, ReorderStrategy::striped}) {
    candidates.push_back(deal_batch(request, strategy));
    const double value = imbalance(candidates.back(), request);
    least = candidates.size() == 1 ? value : std::min(least, value);
    // Nothing that follows can be less than 1, so a tie with that is final.
    if (value <= 1 + kTie) return std::move(candidates.back());
  }
  const auto chosen = std::find_if(candidates.begin(), candidates.end(), [&](const BatchDeal& deal) {
    return imbalance(deal, request) <= least * (1 + kTie);
  });
  return std::move(*chosen);
}

}  // namespace maxtext
