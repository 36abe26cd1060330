#include "train/device_batch.h"

#include <algorithm>

#include "base/error.h"
#include "context/gather_slots.h"

namespace maxtext {
namespace {

template <typename T>
constexpr DType kDTypeOf = DType::int32;
template <>
constexpr DType kDTypeOf<float> = DType::float32;

/// Collects rows of equal length and makes a [rows, length] input of them.
template <typename T>
class RowCollector {
 public:
  void append(std::span<const T> row) {
    values_.insert(values_.end(), row.begin(), row.end());
    ++rows_;
  }

  Tensor input(Engine& engine) const {
    const std::int64_t length = static_cast<std::int64_t>(values_.size()) / rows_;
    return engine.input({{rows_, length}, kDTypeOf<T>}, std::as_bytes(std::span(values_)));
  }

 private:
  std::vector<T> values_;
  std::int64_t rows_ = 0;
};

template <typename T>
std::span<const T> row_of(const std::vector<T>& values, std::int64_t row, std::int64_t length) {
  return std::span(values).subspan(static_cast<std::size_t>(row * length), static_cast<std::size_t>(length));
}

double visible_pairs(const KeyIntervals& intervals) {
  double area = 0;
  for (std::size_t i = 0; i < intervals.begin.size(); ++i) area += intervals.end[i] - intervals.begin[i];
  return area;
}

}  // namespace

RowRange device_rows(const Mesh& mesh, int device, std::int64_t rows, int micro_batches, int micro_batch) {
  constexpr AxisSet kBatchAxes = Axis::data | Axis::fsdp;
  const std::int64_t group = mesh.size(kBatchAxes);
  if (rows % (group * micro_batches) != 0) {
    fail("a batch of {} rows cannot be dealt to {} data × fsdp groups in {} micro-batches", rows, group, micro_batches);
  }
  const std::int64_t count = rows / (group * micro_batches);
  return {.first = (micro_batch * group + mesh.group_rank(device, kBatchAxes)) * count, .count = count};
}

DeviceBatch make_device_batch(Engine& engine, const ContextPlan& plan, const RowBatch& batch, RowRange rows) {
  const MemoryKindScope scope(engine.memory(), MemoryKind::inputs);
  const int context = engine.mesh().group_rank(engine.device(), Axis::context);
  const std::int64_t length = batch.sequence_length;
  RowCollector<std::int32_t> ids;
  RowCollector<std::int32_t> positions;
  RowCollector<std::int32_t> targets;
  RowCollector<std::int32_t> slots;
  RowCollector<float> weights;
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    ids.append(gather_slots(plan, row, context, row_of(batch.inputs, row, length), 0));
    positions.append(gather_slots(plan, row, context, row_of(batch.position_ids, row, length), 0));
    targets.append(gather_slots(plan, row, context, row_of(batch.targets, row, length), 0));
    weights.append(gather_slots(plan, row, context, row_of(batch.weights, row, length), 0.0F));
    slots.append(plan.gathered_slots(row));
  }
  DeviceBatch result{.input_ids = ids.input(engine),
                     .position_ids = positions.input(engine),
                     .targets = targets.input(engine),
                     .target_weights = weights.input(engine),
                     .gathered_slots = slots.input(engine),
                     .intervals = {}};
  for (std::size_t type = 0; type < plan.attention_types().size(); ++type) {
    RowCollector<std::int32_t> begins;
    RowCollector<std::int32_t> ends;
    double area = 0;
    for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
      const KeyIntervals intervals = plan.key_intervals(row, context, type);
      begins.append(intervals.begin);
      ends.append(intervals.end);
      area += visible_pairs(intervals);
    }
    result.intervals.push_back({.key_begin = begins.input(engine), .key_end = ends.input(engine), .area = area});
  }
  return result;
}

DeviceBatch make_device_batch_shapes(Engine& engine, const ContextPlan& plan, RowRange rows) {
  const MemoryKindScope scope(engine.memory(), MemoryKind::inputs);
  const int context = engine.mesh().group_rank(engine.device(), Axis::context);
  const auto input = [&](std::int64_t length, DType dtype) { return engine.input({{rows.count, length}, dtype}, {}); };
  const std::int64_t slots = plan.slots_per_device();
  DeviceBatch result{.input_ids = input(slots, DType::int32),
                     .position_ids = input(slots, DType::int32),
                     .targets = input(slots, DType::int32),
                     .target_weights = input(slots, DType::float32),
                     .gathered_slots = input(plan.padded_length(), DType::int32),
                     .intervals = {}};
  for (std::size_t type = 0; type < plan.attention_types().size(); ++type) {
    const Tensor begin = input(slots, DType::int32);
    const Tensor end = input(slots, DType::int32);
    double area = 0;
    for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
      area += visible_pairs(plan.key_intervals(row, context, type));
    }
    result.intervals.push_back({.key_begin = begin, .key_end = end, .area = area});
  }
  return result;
}

LayerAttentionTypes layer_attention_types(const std::vector<std::int64_t>& layer_windows) {
  LayerAttentionTypes result;
  for (const std::int64_t window : layer_windows) {
    const auto known = std::find_if(result.types.begin(), result.types.end(),
                                    [&](const AttentionType& type) { return type.window == window; });
    result.of_layer.push_back(static_cast<std::size_t>(known - result.types.begin()));
    if (known == result.types.end()) {
      result.types.push_back({.window = window, .layers = 1});
    } else {
      known->layers += 1;
    }
  }
  return result;
}

}  // namespace maxtext
