#include "train/train_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/cpu/cpu_engine.h"
#include "mesh/thread_transport.h"
#include "testing_model/clock_engine.h"
#include "testing_model/model_run.h"
#include "testing_model/step_run.h"

namespace maxtext::testing {
namespace {

using ::testing::ElementsAre;

StepCase two_micro_batches() {
  StepCase step;
  step.shape = small_shape(4, 2, {0});
  step.micro_batches = 2;
  step.batch = random_batch(16, {{16}, {16}}, step.shape.vocab_size, 3);
  return step;
}

/// Runs the step; `micro_batch_made` is told each number.
StepOutput run_step(Engine& engine, const std::function<void(int)>& micro_batch_made, const std::function<bool()>& flag,
                    const std::function<void()>& before_update) {
  const StepCase step = two_micro_batches();
  const RunSetup setup = setup_of(step);
  const ContextPlan plan = plan_of(step);
  ParameterShards parameters(engine, model_layout(setup.shape));
  parameters.initialise(3);
  Optimizer optimizer(parameters, setup.optimizer);
  Decoder decoder(engine, setup.shape, setup.attention.of_layer, setup.decoder);
  const auto micro_batch = [&](int m) {
    micro_batch_made(m);
    return make_device_batch(engine, plan, step.batch, device_rows(setup.mesh, 0, plan.rows(), step.micro_batches, m));
  };
  return TrainStep(decoder, parameters, optimizer)
      .run(0, 1e-3, step.micro_batches, micro_batch, total_weights(step.batch), flag, before_update);
}

TEST(TrainStep, AFlagThatIsRaisedDuringTheStepIsSeenInIt) {
  ThreadTransport transport{Mesh({1, 1, 1, 1})};
  const auto communicator = transport.communicator(0);
  CpuEngine engine({.threads = 1}, *communicator);
  std::vector<std::string> order;
  bool raised = false;
  const StepOutput output = run_step(
      engine,
      [&](int m) {
        order.push_back("batch");
        raised = m == 1;
      },
      [&] {
        order.push_back("flag");
        return raised;
      },
      [&] { order.push_back("update"); });
  EXPECT_TRUE(output.flag);
  EXPECT_THAT(order, ElementsAre("batch", "batch", "flag", "update"));
  const StepOutput quiet = run_step(
      engine, [](int) {}, [] { return false; }, {});
  EXPECT_FALSE(quiet.flag);
}

TEST(TrainStep, AsksForTheFlagAfterTheLastBackwardPass) {
  ClockEngine engine(Mesh({1, 1, 1, 1}), 0, {});
  int backward_passes = 0;  // each ends with the embedding's
  run_step(
      engine, [](int) {},
      [&] {
        backward_passes = engine.runs("embedding_backward");
        return false;
      },
      {});
  EXPECT_EQ(backward_passes, two_micro_batches().micro_batches);
}

}  // namespace
}  // namespace maxtext::testing
