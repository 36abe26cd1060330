// How well a model predicts a text.
#pragma once

#include <cstdint>

#include "context/context_plan.h"
#include "data/dataset.h"
#include "inference/device_set.h"
#include "inference/model_files.h"
#include "mesh/mesh.h"

namespace maxtext {

struct Evaluation {
  std::int64_t tokens = 0;  ///< predicted
  std::int64_t rows = 0;
  double mean_nll = 0;        ///< nats a token
  double standard_error = 0;  ///< of the mean: standard deviation of the tokens' nll / sqrt(tokens)
  double seconds = 0;

  double perplexity() const;
  /// Of the perplexity, to first order: perplexity · standard_error.
  double perplexity_error() const;
};

struct EvaluationOptions {
  std::int64_t rows_per_batch = 1;  ///< a multiple of data × fsdp
  std::int64_t most_rows = -1;      ///< -1: all
  ReorderStrategy reorder = ReorderStrategy::automatic;
};

/// Mean negative log-likelihood of the dataset's targets by the training forward on `mesh`, whose devices are threads
/// of this process. Tokens of weight 0 do not count. Throws ConfigError when there is none
/// that does, and for data that are not valid; Error naming the row where an nll is not finite.
Evaluation evaluate(const ModelShape& shape, const WeightSource& weights, std::shared_ptr<Dataset> dataset,
                    const Mesh& mesh, const EvaluationOptions& options, const DecodeEnvironment& environment);

}  // namespace maxtext
