#include "train/batch_provider.h"

#include "base/error.h"
#include "mesh/device_program.h"

namespace maxtext {

BatchProvider::BatchProvider(std::shared_ptr<Dataset> dataset, std::int64_t first_row, std::int64_t rows_per_batch,
                             PlanOptions options, bool pad)
    : dataset_(std::move(dataset)),
      first_row_(first_row),
      rows_per_batch_(rows_per_batch),
      options_(std::move(options)),
      pad_(pad),
      cores_(split_cores(1).front()) {}

BatchProvider::~BatchProvider() {
  for (auto& [index, future] : batches_) future.wait();
}

std::shared_ptr<const PlannedBatch> BatchProvider::build(std::int64_t index) {
  const std::int64_t first = first_row_ + index * rows_per_batch_;
  std::optional<RowBatch> rows;
  {
    const std::lock_guard lock(dataset_mutex_);
    rows = pad_ ? read_padded(*dataset_, first, rows_per_batch_) : dataset_->read(first, rows_per_batch_);
  }
  if (!rows.has_value()) return nullptr;
  ContextPlanRequest request;
  request.sequence_length = rows->sequence_length;
  request.document_lengths = rows->document_lengths;
  request.attention_types = options_.attention_types;
  request.context_parallelism = options_.context_parallelism;
  request.reorder = options_.reorder;
  ContextPlan plan(std::move(request));
  const double weights = total_weights(*rows);
  return std::make_shared<const PlannedBatch>(
      PlannedBatch{.rows = std::move(*rows), .plan = std::move(plan), .total_weights = weights});
}

BatchProvider::Future BatchProvider::request(std::int64_t index) {
  const auto known = batches_.find(index);
  if (known != batches_.end()) return known->second;
  Future future = std::async(std::launch::async, [this, index] {
                    pin_current_thread(cores_);
                    return build(index);
                  }).share();
  batches_.emplace(index, future);
  return future;
}

std::shared_ptr<const PlannedBatch> BatchProvider::get(std::int64_t index) {
  Future wanted;
  {
    const std::lock_guard lock(mutex_);
    wanted = request(index);
    request(index + 1);
    // Another device may still be about to ask for the one before this.
    batches_.erase(batches_.begin(), batches_.lower_bound(index - 1));
  }
  return wanted.get();
}

std::exception_ptr BatchProvider::error_of(std::int64_t index) {
  Future wanted;
  {
    const std::lock_guard lock(mutex_);
    wanted = request(index);
  }
  try {
    wanted.get();
  } catch (const Error&) {
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace maxtext
