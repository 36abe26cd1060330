// From a global batch and its context plan to the input arrays of one device.
#pragma once

#include "context/context_plan.h"
#include "data/row_batch.h"
#include "model/decoder.h"

namespace maxtext {

/// Which rows of a batch a device works on, and in which micro-batch. Rows are dealt over data × fsdp: micro-batch m
/// of group rank r has rows (m·G + r)·n … + n, with G the group's size and n = rows / (G · micro_batches).
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};
/// Throws Error when the rows do not divide.
RowRange device_rows(const Mesh& mesh, int device, std::int64_t rows, int micro_batches, int micro_batch);

/// The arrays of one micro-batch as the plan lays them out. Slots of padding have id 0, weight 0 and see nothing.
DeviceBatch make_device_batch(Engine& engine, const ContextPlan& plan, const RowBatch& batch, RowRange rows);

/// The same as shapes only, for engines without data: inputs in the same order, with the attention areas of these rows.
DeviceBatch make_device_batch_shapes(Engine& engine, const ContextPlan& plan, RowRange rows);

/// Distinct windows of the layers as attention types with their layer counts, and the type of each layer.
struct LayerAttentionTypes {
  std::vector<AttentionType> types;
  std::vector<std::size_t> of_layer;
};
LayerAttentionTypes layer_attention_types(const std::vector<std::int64_t>& layer_windows);

}  // namespace maxtext
