#include "testing_model/model_run.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "context/gather_slots.h"
#include "engines/cpu/cpu_engine.h"
#include "mesh/device_program.h"
#include "mesh/thread_transport.h"
#include "model/tensor_parallel.h"
#include "train/device_state.h"
#include "train/train_step.h"

namespace maxtext::testing {
namespace {

std::vector<double> read_values(Engine& engine, const Tensor& tensor) {
  if (tensor.dtype() == DType::float64) return read_doubles(engine, tensor);
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  engine.read(tensor, std::as_writable_bytes(std::span(values)));
  return {values.begin(), values.end()};
}

void write_values(Engine& engine, const Tensor& tensor, const std::vector<double>& values) {
  if (tensor.dtype() == DType::float64) {
    engine.write(tensor, std::as_bytes(std::span(values)));
    return;
  }
  const std::vector<float> narrow(values.begin(), values.end());
  engine.write(tensor, std::as_bytes(std::span(narrow)));
}

template <typename Visit>
void for_each_part(const ParameterShards& parameters, Visit visit) {
  for (std::size_t g = 0; g < parameters.layout().groups.size(); ++g) {
    const ParameterGroup& group = parameters.layout().groups[g];
    for (std::size_t k = 0; k < group.parameters.size(); ++k) {
      const ParameterRange range = parameter_range(group, k, parameters.shard_index());
      if (range.count > 0) visit(g, k, range);
    }
  }
}

/// Puts a device's [B, T, width] values where they belong in original order.
void scatter(const ContextPlan& plan, const Engine& engine, RowRange rows, const std::vector<double>& values,
             std::int64_t width, std::vector<float>& whole) {
  const int context = engine.mesh().group_rank(engine.device(), Axis::context);
  const std::vector<float> narrow(values.begin(), values.end());
  const auto per_row = static_cast<std::size_t>(plan.slots_per_device() * width);
  const auto whole_row = static_cast<std::size_t>(plan.sequence_length() * width);
  for (std::int64_t row = 0; row < rows.count; ++row) {
    scatter_slots(plan, rows.first + row, context,
                  std::span(narrow).subspan(static_cast<std::size_t>(row) * per_row, per_row), width,
                  std::span(whole).subspan(static_cast<std::size_t>(rows.first + row) * whole_row, whole_row));
  }
}

}  // namespace

void edit_parameters(ParameterShards& parameters, const ModelRunOptions& options) {
  if (!options.edit_weights) return;
  for_each_part(parameters, [&](std::size_t g, std::size_t k, const ParameterRange& range) {
    const ParameterGroup& group = parameters.layout().groups[g];
    const Tensor part = parameters.shard(g).view(range.shard_offset, {range.count});
    const std::vector<double> values = read_values(parameters.engine(), part);
    std::vector<double> edited;
    for (const ElementRun& run : element_runs(group.parameters[k], group.slices[k], range.first, range.count)) {
      const auto begin = values.begin() + (run.slice_first - range.first);
      std::vector<double> piece(begin, begin + run.count);
      options.edit_weights(group.parameters[k].name, run.whole_first, piece);
      edited.insert(edited.end(), piece.begin(), piece.end());
    }
    write_values(parameters.engine(), part, edited);
  });
}

void collect_gradients(ParameterShards& parameters, ModelRunResult& result) {
  Engine& engine = parameters.engine();
  if (engine.mesh().group_rank(engine.device(), Axis::data) != 0) return;
  for_each_part(parameters, [&](std::size_t g, std::size_t k, const ParameterRange& range) {
    const ParameterGroup& group = parameters.layout().groups[g];
    const std::vector<double> values =
        read_values(engine, parameters.gradient(g).view(range.shard_offset, {range.count}));
    std::vector<double>& whole = result.gradients[group.parameters[k].name];
    whole.resize(static_cast<std::size_t>(element_count(group.parameters[k].shape)));
    for (const ElementRun& run : element_runs(group.parameters[k], group.slices[k], range.first, range.count)) {
      std::copy_n(values.begin() + (run.slice_first - range.first), run.count, whole.begin() + run.whole_first);
    }
  });
}

void collect_nll(Engine& engine, const ContextPlan& plan, RowRange rows, const Tensor& nll, ModelRunResult& result) {
  scatter(plan, engine, rows, read_values(engine, nll), 1, result.nll);
}

ModelRunResult run_model(const ModelShape& shape, const RowBatch& batch, const ModelRunOptions& options) {
  ThreadTransport transport{model_mesh(shape, options.mesh)};
  return run_model(shape, batch, options, transport);
}

ModelRunResult run_model(const ModelShape& shape, const RowBatch& batch, const ModelRunOptions& options,
                         Transport& transport,
                         const std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)>& wrap) {
  const LayerAttentionTypes attention = layer_attention_types(shape.layer_windows);
  ContextPlanRequest request;
  request.sequence_length = batch.sequence_length;
  request.document_lengths = batch.document_lengths;
  request.attention_types = attention.types;
  request.context_parallelism = transport.mesh().size(Axis::context);
  request.reorder = options.reorder;
  const ContextPlan plan(std::move(request));

  ModelRunResult result;
  result.nll.resize(batch.inputs.size());
  if (options.with_logits) result.logits.resize(batch.inputs.size() * static_cast<std::size_t>(shape.vocab_size));
  std::mutex mutex;
  const auto program = [&](int device) {
    std::unique_ptr<Communicator> communicator = transport.communicator(device);
    if (wrap) communicator = wrap(std::move(communicator));
    const std::unique_ptr<Engine> made =
        options.make_engine ? options.make_engine(*communicator)
                            : std::make_unique<CpuEngine>(CpuEngineOptions{.threads = options.threads}, *communicator);
    Engine& engine = *made;
    ParameterShards parameters(engine, model_layout(shape, engine.mesh(), engine.device()), options.dtype);
    if (options.weights != nullptr) {
      load_weights(*options.weights, parameters);
    } else {
      parameters.initialise(options.seed);
    }
    edit_parameters(parameters, options);
    Decoder decoder(engine, shape, attention.of_layer,
                    {.remat = remat_policy(options.remat),
                     .z_loss_multiplier = options.z_loss_multiplier,
                     .cross_entropy_chunk = options.cross_entropy_chunk,
                     .dtype = options.dtype});
    const double denominator = total_weights(batch) + 1e-8;
    const auto inverse = static_cast<float>(1 / denominator);
    const Tensor inverse_denominator = engine.input({{}, DType::float32}, std::as_bytes(std::span(&inverse, 1)));
    double sum = 0;
    for (int m = 0; m < options.micro_batches; ++m) {
      const RowRange rows = device_rows(engine.mesh(), device, batch.rows, options.micro_batches, m);
      const DeviceBatch inputs = make_device_batch(engine, plan, batch, rows);
      if (options.with_logits) {
        const std::vector<double> logits = read_values(engine, decoder.logits(parameters, inputs));
        const std::lock_guard lock(mutex);
        scatter(plan, engine, rows, logits, shape.vocab_size, result.logits);
      }
      const LossParts parts = options.with_gradients ? decoder.train(parameters, inputs, inverse_denominator)
                                                     : decoder.evaluate(parameters, inputs);
      const std::vector<double> sums = read_doubles(engine, parts.sums);
      sum += sums[0] + sums[1];
      const std::lock_guard lock(mutex);
      collect_nll(engine, plan, rows, parts.nll, result);
    }
    parameters.finish_reductions();
    // Not under the lock: others that wait for it have reductions to start.
    for (std::size_t g = 0; options.with_gradients && g < parameters.layout().groups.size(); ++g) {
      parameters.gradient(g).storage()->wait();
    }
    const std::lock_guard lock(mutex);
    if (engine.mesh().group_rank(device, kTensorAxes) == 0) result.loss += sum / denominator;
    if (options.with_gradients) collect_gradients(parameters, result);
    if (device == 0) result.peak_bytes = engine.memory().peak_bytes();
  };
  run_devices(transport.local_devices(), program,
              [&](int device, const std::string& reason) { transport.abort(device, reason); });
  return result;
}

RowBatch random_batch(std::int64_t sequence_length, const std::vector<std::vector<std::int64_t>>& documents,
                      std::int64_t vocab, std::uint64_t seed) {
  RowBatch batch = padding_batch(static_cast<std::int64_t>(documents.size()), sequence_length);
  std::uint64_t state = seed * 2862933555777941757ULL + 3037000493ULL;
  for (std::size_t row = 0; row < documents.size(); ++row) {
    std::vector<std::int32_t> ids;
    for (const std::int64_t length : documents[row]) {
      for (std::int64_t i = 0; i < length; ++i) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        ids.push_back(static_cast<std::int32_t>((state >> 33U) % static_cast<std::uint64_t>(vocab)));
      }
    }
    fill_row(batch, static_cast<std::int64_t>(row), ids, documents[row]);
  }
  return batch;
}

ModelShape small_shape(std::int64_t query_heads, std::int64_t kv_heads, std::vector<std::int64_t> layer_windows) {
  ModelShape shape;
  shape.vocab_size = 61;
  shape.head_dim = 8;
  shape.hidden_size = 24;
  shape.intermediate_size = 40;
  shape.layers = static_cast<std::int64_t>(layer_windows.size());
  shape.query_heads = query_heads;
  shape.kv_heads = kv_heads;
  shape.layer_windows = std::move(layer_windows);
  shape.query_scale = 1 / std::sqrt(8.0);
  shape.max_position_embeddings = 2048;
  return shape;
}

ModelShape small_gemma2(std::vector<std::int64_t> layer_windows) {
  ModelShape shape = small_shape(4, 2, std::move(layer_windows));
  shape.family = "gemma2";
  shape.tie_word_embeddings = true;
  shape.query_scale = 1 / std::sqrt(6.0);
  shape.attention_softcap = 1.5;
  shape.final_softcap = 3;
  set_family_constants(shape);
  return shape;
}

ModelShape small_gemma3(std::vector<std::int64_t> layer_windows) {
  ModelShape shape = small_shape(4, 2, std::move(layer_windows));
  shape.family = "gemma3";
  shape.tie_word_embeddings = true;
  shape.qk_norm = true;
  shape.rope.type = RopeType::linear;
  shape.rope.theta = 5e5;
  shape.rope.factor = 8;
  shape.local_rope = RopeShape{};
  set_family_constants(shape);
  return shape;
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  double difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(b[i]));
    const double d = std::abs(a[i] - b[i]);
    difference = std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(difference, d);
  }
  return difference == 0 ? 0 : difference / std::max(largest, 1e-30);
}

}  // namespace maxtext::testing
