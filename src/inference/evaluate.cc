#include "inference/evaluate.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/seconds_since.h"
#include "mesh/thread_transport.h"
#include "train/batch_provider.h"
#include "train/device_batch.h"
#include "train/device_state.h"

namespace maxtext {
namespace {

/// Σ 1, Σ nll, Σ nll² over tokens that count.
struct Moments {
  std::int64_t count = 0;
  double sum = 0;
  double squares = 0;

  void add(const Moments& other) {
    count += other.count;
    sum += other.sum;
    squares += other.squares;
  }
};

/// `rows` are the dataset's rows that `nll` is of.
Moments moments_of(Engine& engine, const Tensor& nll, const Tensor& weights, const RowRange& rows) {
  std::vector<float> values(static_cast<std::size_t>(nll.elements()));
  std::vector<float> counted(values.size());
  engine.read(nll, std::as_writable_bytes(std::span(values)));
  engine.read(weights, std::as_writable_bytes(std::span(counted)));
  Moments moments;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (counted[i] == 0) continue;
    if (!std::isfinite(values[i])) {
      const std::int64_t row = rows.first + static_cast<std::int64_t>(i) * rows.count / nll.elements();
      fail(
          "row {} of the text: the nll of a token is not finite: the model computes numbers that are too large, or its "
          "weights are damaged",
          row + 1);
    }
    ++moments.count;
    moments.sum += values[i];
    moments.squares += static_cast<double>(values[i]) * values[i];
  }
  return moments;
}

/// What is wrong with a text is wrong input here, not a run that ends in its middle.
std::shared_ptr<const PlannedBatch> next_batch(BatchProvider& batches, std::int64_t index) {
  try {
    return batches.get(index);
  } catch (const Error& error) {
    throw ConfigError(error.what());
  }
}

std::int64_t batches_of(const EvaluationOptions& options) {
  if (options.most_rows < 0) return std::numeric_limits<std::int64_t>::max();
  return (options.most_rows + options.rows_per_batch - 1) / options.rows_per_batch;
}

}  // namespace

double Evaluation::perplexity() const { return std::exp(mean_nll); }
double Evaluation::perplexity_error() const { return perplexity() * standard_error; }

Evaluation evaluate(const ModelShape& shape, const WeightSource& weights, std::shared_ptr<Dataset> dataset,
                    const Mesh& mesh, const EvaluationOptions& options, const DecodeEnvironment& environment) {
  const LayerAttentionTypes attention = layer_attention_types(shape.layer_windows);
  BatchProvider batches(
      std::move(dataset), 0, options.rows_per_batch,
      {.attention_types = attention.types, .context_parallelism = mesh.size(Axis::context), .reorder = options.reorder},
      /*pad=*/true);
  Moments total;
  Evaluation result;
  std::mutex mutex;
  const auto start = std::chrono::steady_clock::now();
  ThreadTransport transport{mesh};
  run_on_devices(transport, environment, [&](Engine& engine) {
    ParameterShards parameters(engine, model_layout(shape, engine.mesh(), engine.device()));
    load_weights(weights, parameters);
    Decoder decoder(engine, shape, attention.of_layer, {});
    const RowRange rows = device_rows(engine.mesh(), engine.device(), options.rows_per_batch, 1, 0);
    Moments own;
    for (std::int64_t i = 0; i < batches_of(options); ++i) {
      const std::shared_ptr<const PlannedBatch> planned = next_batch(batches, i);
      if (planned == nullptr) break;
      const DeviceBatch batch = make_device_batch(engine, planned->plan, planned->rows, rows);
      own.add(moments_of(engine, decoder.evaluate(parameters, batch).nll, batch.target_weights,
                         {i * options.rows_per_batch + rows.first, rows.count}));
      if (engine.device() == 0) result.rows += planned->rows.rows;
    }
    const std::lock_guard lock(mutex);
    total.add(own);
  });
  if (total.count == 0) fail_config("the text has no token to predict: one needs at least two in a document");
  const auto count = static_cast<double>(total.count);
  result.tokens = total.count;
  result.mean_nll = total.sum / count;
  const double variance = std::max(0.0, total.squares / count - result.mean_nll * result.mean_nll);
  result.standard_error = std::sqrt(variance / count);
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace maxtext
