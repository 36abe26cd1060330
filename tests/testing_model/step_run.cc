#include "testing_model/step_run.h"

#include "model/tensor_parallel.h"

namespace maxtext::testing {

RunSetup setup_of(const StepCase& step) {
  RunSetup setup{.mesh = model_mesh(step.shape, step.mesh),
                 .shape = step.shape,
                 .attention = layer_attention_types(step.shape.layer_windows),
                 .batch = {},
                 .micro_batches = step.micro_batches,
                 .sequence_length = step.batch.sequence_length,
                 .steps = 1,
                 .schedule = {},
                 .optimizer = {},
                 .decoder = {.remat = remat_policy(step.remat)},
                 .plan = {},
                 .run_directory = {}};
  setup.batch.global = step.batch.rows;
  setup.schedule.learning_rate_schedule_steps = 10;
  setup.plan.attention_types = setup.attention.types;
  setup.plan.context_parallelism = setup.mesh.size(Axis::context);
  setup.plan.reorder = step.reorder;
  return setup;
}

ContextPlan plan_of(const StepCase& step) {
  ContextPlanRequest request;
  request.sequence_length = step.batch.sequence_length;
  request.document_lengths = step.batch.document_lengths;
  request.attention_types = layer_attention_types(step.shape.layer_windows).types;
  request.context_parallelism = Mesh(step.mesh).size(Axis::context);
  request.reorder = step.reorder;
  return ContextPlan(std::move(request));
}

StepOutput real_step(const StepCase& step, const ContextPlan& plan, Engine& engine,
                     const std::function<void()>& reset) {
  const RunSetup setup = setup_of(step);
  ParameterShards parameters(engine, model_layout(setup.shape, setup.mesh, engine.device()));
  parameters.initialise(3);
  Optimizer optimizer(parameters, setup.optimizer);
  Decoder decoder(engine, setup.shape, setup.attention.of_layer, setup.decoder);
  TrainStep train_step(decoder, parameters, optimizer);
  engine.memory().reset_peak();
  if (reset) reset();
  const auto micro_batch = [&](int m) {
    return make_device_batch(engine, plan, step.batch,
                             device_rows(setup.mesh, engine.device(), plan.rows(), setup.micro_batches, m));
  };
  return train_step.run(0, 1e-3, setup.micro_batches, micro_batch, total_weights(step.batch));
}

}  // namespace maxtext::testing
