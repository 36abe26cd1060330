#include "train/dry_step.h"

namespace maxtext {

ContextPlan one_document_plan(const RunSetup& setup) {
  ContextPlanRequest request;
  request.sequence_length = setup.sequence_length;
  request.document_lengths.assign(static_cast<std::size_t>(setup.batch.global), {setup.sequence_length});
  request.attention_types = setup.plan.attention_types;
  request.context_parallelism = setup.plan.context_parallelism;
  request.reorder = setup.plan.reorder;
  return ContextPlan(std::move(request));
}

void dry_step(const RunSetup& setup, const ContextPlan& plan, Engine& engine, const std::function<void()>& reset) {
  ParameterShards parameters(engine, model_layout(setup.shape, setup.mesh, engine.device()), DType::float32,
                             setup.decoder.dtype);
  Optimizer optimizer(parameters, setup.optimizer);
  Decoder decoder(engine, setup.shape, setup.attention.of_layer, setup.decoder);
  TrainStep train_step(decoder, parameters, optimizer);
  engine.memory().reset_peak();
  if (reset) reset();
  const auto micro_batch = [&](int m) {
    return make_device_batch_shapes(engine, plan,
                                    device_rows(setup.mesh, engine.device(), plan.rows(), setup.micro_batches, m));
  };
  train_step.run(0, learning_rate_at(setup.schedule, 0), setup.micro_batches, micro_batch, 1.0);
}

}  // namespace maxtext
