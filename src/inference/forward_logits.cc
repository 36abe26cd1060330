#include "inference/forward_logits.h"

#include <mutex>

#include "context/gather_slots.h"
#include "inference/device_set.h"
#include "mesh/thread_transport.h"
#include "train/device_batch.h"
#include "train/device_state.h"

namespace maxtext {
namespace {

ContextPlan plan_of(const RowBatch& batch, const LayerAttentionTypes& attention, int context_parallelism,
                    ReorderStrategy reorder) {
  ContextPlanRequest request;
  request.sequence_length = batch.sequence_length;
  request.document_lengths = batch.document_lengths;
  request.attention_types = attention.types;
  request.context_parallelism = context_parallelism;
  request.reorder = reorder;
  return ContextPlan(std::move(request));
}

RowBatch repeated(std::span<const std::int32_t> ids, std::int64_t rows) {
  const auto length = static_cast<std::int64_t>(ids.size());
  RowBatch batch = padding_batch(rows, length);
  for (std::int64_t row = 0; row < rows; ++row) fill_row(batch, row, ids, {length});
  return batch;
}

}  // namespace

std::vector<float> forward_logits(const ModelShape& shape, const WeightSource& weights,
                                  std::span<const std::int32_t> ids, const Mesh& mesh, ReorderStrategy reorder,
                                  const DecodeEnvironment& environment) {
  const std::int64_t rows = mesh.size(Axis::data) * mesh.size(Axis::fsdp);
  const RowBatch batch = repeated(ids, rows);
  const LayerAttentionTypes attention = layer_attention_types(shape.layer_windows);
  const ContextPlan plan = plan_of(batch, attention, mesh.size(Axis::context), reorder);
  std::vector<float> result(ids.size() * static_cast<std::size_t>(shape.vocab_size));
  std::mutex mutex;
  ThreadTransport transport{mesh};
  run_on_devices(transport, environment, [&](Engine& engine) {
    ParameterShards parameters(engine, model_layout(shape, engine.mesh(), engine.device()));
    load_weights(weights, parameters);
    Decoder decoder(engine, shape, attention.of_layer, {});
    const RowRange range = device_rows(engine.mesh(), engine.device(), rows, 1, 0);
    const Tensor logits = decoder.logits(parameters, make_device_batch(engine, plan, batch, range));
    // On every device: a lazy engine runs its program when it is read, and all devices run it together.
    std::vector<float> own(static_cast<std::size_t>(logits.elements()));
    engine.read(logits, std::as_writable_bytes(std::span(own)));
    if (range.first != 0) return;
    const std::lock_guard lock(mutex);
    scatter_slots(plan, 0, engine.mesh().group_rank(engine.device(), Axis::context), own, shape.vocab_size, result);
  });
  return result;
}

}  // namespace maxtext
