// Runs a model on a mesh of device threads and brings home what a test compares: loss, every gradient, and the loss of
// each token in original order.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/weight_source.h"
#include "mesh/transport.h"
#include "train/device_batch.h"
#include "train/optimizer.h"

namespace maxtext::testing {

struct ModelRunOptions {
  std::array<int, 4> mesh = {1, 1, 1, 1};
  ReorderStrategy reorder = ReorderStrategy::automatic;
  int micro_batches = 1;
  int threads = 1;
  DType dtype = DType::float32;
  std::string remat = "none";
  double z_loss_multiplier = 0;
  std::int64_t cross_entropy_chunk = 1024;
  std::uint64_t seed = 7;
  /// Initial weights, or by `seed`.
  const WeightSource* weights = nullptr;
  /// Applied to the parameters of every device before the step: (name, element of the parameter, value).
  std::function<void(const std::string&, std::int64_t first, std::vector<double>& values)> edit_weights;
  /// The engine of a device; the cpu engine where it is not given.
  std::function<std::unique_ptr<Engine>(Communicator& communicator)> make_engine;
  bool with_logits = false;
  bool with_gradients = true;
};

struct ModelRunResult {
  double loss = 0;
  std::map<std::string, std::vector<double>> gradients;
  /// [rows, sequence_length], original order.
  std::vector<float> nll;
  /// [rows, sequence_length, vocab] with `with_logits`.
  std::vector<float> logits;
  /// Peak of the tensor arena of device 0.
  std::int64_t peak_bytes = 0;
};

ModelRunResult run_model(const ModelShape& shape, const RowBatch& batch, const ModelRunOptions& options);

/// The same on given transport, for tests that bring their own.
ModelRunResult run_model(const ModelShape& shape, const RowBatch& batch, const ModelRunOptions& options,
                         Transport& transport,
                         const std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)>& wrap = {});

/// Applies options.edit_weights to a device's parameters.
void edit_parameters(ParameterShards& parameters, const ModelRunOptions& options);

/// Adds what one device holds to the result of all: its parts of every gradient, and the loss of each token of its
/// rows, put where it belongs in original order.
void collect_gradients(ParameterShards& parameters, ModelRunResult& result);
void collect_nll(Engine& engine, const ContextPlan& plan, RowRange rows, const Tensor& nll, ModelRunResult& result);

/// A batch of documents with pseudo-random ids below `vocab`; what documents leave of the length is padding.
RowBatch random_batch(std::int64_t sequence_length, const std::vector<std::vector<std::int64_t>>& documents,
                      std::int64_t vocab, std::uint64_t seed);

/// A Llama small enough for a matrix of runs.
ModelShape small_shape(std::int64_t query_heads, std::int64_t kv_heads, std::vector<std::int64_t> layer_windows);

/// Gemmas as small: gemma2 with both soft caps, gemma3 with norms on q and k and a rotary embedding of its own on
/// layers with a window; both tied.
ModelShape small_gemma2(std::vector<std::int64_t> layer_windows);
ModelShape small_gemma3(std::vector<std::int64_t> layer_windows);

/// max |a - b| over all, relative to max |b|.
double relative_difference(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace maxtext::testing
