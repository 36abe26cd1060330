// What a cpu engine holds after a training step, tensors, gaps between them and scratch, is what the model of its
// memory predicts from shapes.
#include "engines/cpu/memory_model.h"

#include <gtest/gtest.h>

#include "engines/cpu/cpu_engine.h"
#include "engines/dry/dry_engine.h"
#include "mesh/device_program.h"
#include "mesh/thread_transport.h"
#include "testing_model/model_run.h"
#include "testing_model/step_run.h"

namespace maxtext::testing {
namespace {

std::vector<std::int64_t> held_by_engines(const StepCase& step, const ContextPlan& plan) {
  ThreadTransport transport{Mesh(step.mesh)};
  std::vector<std::int64_t> held(static_cast<std::size_t>(transport.mesh().device_count()));
  run_devices(
      transport.local_devices(),
      [&](int device) {
        const std::unique_ptr<Communicator> communicator = transport.communicator(device);
        CpuEngine engine({.threads = 1}, *communicator);
        real_step(step, plan, engine);
        held[static_cast<std::size_t>(device)] = engine.pooled_bytes();
      },
      [&](int device, const std::string& reason) { transport.abort(device, reason); });
  return held;
}

std::int64_t predicted(const StepCase& step, const ContextPlan& plan, int device) {
  CpuMemoryModel model(1);
  DryEngine engine(Mesh(step.mesh), device,
                   {.shares_memory = true,
                    .on_allocate = [&](std::int64_t bytes) { return model.allocate(bytes); },
                    .on_execute = [&](const Op& op, InputSpecs inputs) { model.execute(op, inputs); }});
  dry_step(setup_of(step), plan, engine);
  return model.pool_bytes() + model.workspace_bytes();
}

/// Within 2 %, since tokens that do not count make the fused cross-entropy's chunks smaller. Where keys and values
/// or gradients travel inside the step, a block that the other device still reads pushes the next one elsewhere, in an
/// order that no plan knows: there the bound is the one for a whole process, 15 %.
TEST(MemoryModel, OfAStepIsWhatEnginesHold) {
  for (const char* remat : {"full", "minimal", "none"}) {
    for (const std::array<int, 4>& mesh : {std::array{1, 1, 1, 1}, std::array{1, 1, 2, 1}, std::array{1, 2, 1, 1}}) {
      ModelShape shape = small_shape(8, 4, {0, 9, 0});
      RowBatch batch = random_batch(256, {{256}, {100, 120}}, shape.vocab_size, 43);
      const StepCase step{"", std::move(shape), mesh, remat, 1, std::move(batch)};
      const ContextPlan plan = plan_of(step);
      const std::vector<std::int64_t> held = held_by_engines(step, plan);
      for (std::size_t device = 0; device < held.size(); ++device) {
        const std::int64_t expected = predicted(step, plan, static_cast<int>(device));
        const std::string what = std::string(remat) + " fsdp " + std::to_string(mesh[1]) + " context " +
                                 std::to_string(mesh[2]) + " device " + std::to_string(device);
        EXPECT_NEAR(static_cast<double>(held[device]), static_cast<double>(expected),
                    (mesh[1] * mesh[2] > 1 ? 0.15 : 0.02) * static_cast<double>(expected))
            << what;
      }
    }
  }
}

}  // namespace
}  // namespace maxtext::testing
