// A training step of a small model, traced on any engine.
#pragma once

#include <memory>
#include <vector>

#include "engines/xla/xla_engine.h"
#include "testing_model/model_run.h"

namespace maxtext::testing {

/// What all devices of a step have in common.
struct StepCase {
  ModelShape shape;
  RowBatch batch;
  ModelRunOptions options;

  Mesh mesh() const { return Mesh(options.mesh); }
  ContextPlan plan() const;
  double denominator() const { return total_weights(batch) + 1e-8; }
};

/// One device's step: parameters, loss and gradients, forward and backward through the tape and `repeat`.
struct TracedStep {
  TracedStep(const StepCase& step, Engine& engine);

  RowRange rows;
  ParameterShards parameters;
  LossParts parts;
};

/// The step on every device of the mesh, traced by xla engines with everything that a ModelRunResult needs as results.
class TracedMesh {
 public:
  explicit TracedMesh(const StepCase& step);

  std::vector<XlaEngine*> engines() const;
  XlaEngine& engine(int device) const { return *engines_.at(static_cast<std::size_t>(device)); }

  /// After a run.
  ModelRunResult collect() const;

 private:
  const StepCase& step_;
  std::vector<std::unique_ptr<XlaEngine>> engines_;
  std::vector<std::unique_ptr<TracedStep>> steps_;
};

}  // namespace maxtext::testing
