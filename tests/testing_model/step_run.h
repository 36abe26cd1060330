// One training step of a small model as `plan` runs it (shapes only) and as `train` runs it (data), for tests that
// compare the two.
#pragma once

#include "data/row_batch.h"
#include "train/dry_step.h"

namespace maxtext::testing {

struct StepCase {
  std::string name;
  ModelShape shape;
  std::array<int, 4> mesh = {1, 1, 1, 1};
  std::string remat = "full";
  int micro_batches = 1;
  RowBatch batch;
  ReorderStrategy reorder = ReorderStrategy::automatic;
};

RunSetup setup_of(const StepCase& step);
ContextPlan plan_of(const StepCase& step);

/// The same step as dry_step, with data.
StepOutput real_step(const StepCase& step, const ContextPlan& plan, Engine& engine,
                     const std::function<void()>& reset = {});

}  // namespace maxtext::testing
