// The training step without a run around it: what `plan` predicts and what tests compare with the real one.
#pragma once

#include "train/run_setup.h"
#include "train/train_step.h"

namespace maxtext {

/// Parameters, moments and one training step of `plan` on `engine`, as a run has them; with an engine without data
/// nothing is computed. `reset` is called between set-up and step, so that records of the step stand alone.
void dry_step(const RunSetup& setup, const ContextPlan& plan, Engine& engine, const std::function<void()>& reset = {});

/// The plan of a batch whose rows are one document each, as long as the sequence.
ContextPlan one_document_plan(const RunSetup& setup);

}  // namespace maxtext
