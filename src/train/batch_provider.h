// Batches with their plans for the devices of one process: built once, ahead of time, shared by all of them.
#pragma once

#include <exception>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "context/context_plan.h"
#include "data/dataset.h"

namespace maxtext {

struct PlannedBatch {
  RowBatch rows;
  ContextPlan plan;
  double total_weights = 0;
};

/// How a batch's plan is made.
struct PlanOptions {
  std::vector<AttentionType> attention_types;
  int context_parallelism = 1;
  ReorderStrategy reorder = ReorderStrategy::automatic;
};

class BatchProvider {
 public:
  /// Batch i has the rows first_row + i·rows_per_batch … of `dataset`. With `pad`, the last batch is filled up with
  /// rows of padding (evaluation); without, an incomplete one is not delivered.
  BatchProvider(std::shared_ptr<Dataset> dataset, std::int64_t first_row, std::int64_t rows_per_batch,
                PlanOptions options, bool pad = false);
  ~BatchProvider();

  /// Batch `index`, or null at the end of the data; the next one is prepared on another thread meanwhile. Devices may
  /// ask in any order of threads, for the same or the next index. Throws what reading the data threw.
  std::shared_ptr<const PlannedBatch> get(std::int64_t index);

  /// What get(index) would throw; null when it delivers a batch or the end of the data. Waits for the batch, which is
  /// prepared beside the step before it.
  std::exception_ptr error_of(std::int64_t index);

 private:
  using Future = std::shared_future<std::shared_ptr<const PlannedBatch>>;
  std::shared_ptr<const PlannedBatch> build(std::int64_t index);
  Future request(std::int64_t index);

  std::shared_ptr<Dataset> dataset_;
  std::int64_t first_row_;
  std::int64_t rows_per_batch_;
  PlanOptions options_;
  bool pad_;
  /// Those of the process: batches are built beside the devices, not on the cores of the one that asks.
  std::vector<int> cores_;
  std::mutex mutex_;
  std::mutex dataset_mutex_;
  std::map<std::int64_t, Future> batches_;
};

}  // namespace maxtext
