#include "xla/traced_step.h"

#include "train/train_step.h"

namespace maxtext::testing {

ContextPlan StepCase::plan() const {
  ContextPlanRequest request;
  request.sequence_length = batch.sequence_length;
  request.document_lengths = batch.document_lengths;
  request.attention_types = layer_attention_types(shape.layer_windows).types;
  request.context_parallelism = mesh().size(Axis::context);
  request.reorder = options.reorder;
  return ContextPlan(std::move(request));
}

TracedStep::TracedStep(const StepCase& step, Engine& engine)
    : rows(device_rows(engine.mesh(), engine.device(), step.batch.rows, 1, 0)),
      parameters(engine, model_layout(step.shape, engine.mesh(), engine.device()), step.options.dtype) {
  parameters.initialise(step.options.seed);
  if (engine.has_data()) edit_parameters(parameters, step.options);
  Decoder decoder(engine, step.shape, layer_attention_types(step.shape.layer_windows).of_layer,
                  {.remat = remat_policy(step.options.remat),
                   .z_loss_multiplier = step.options.z_loss_multiplier,
                   .cross_entropy_chunk = step.options.cross_entropy_chunk,
                   .dtype = step.options.dtype});
  const auto inverse = static_cast<float>(1 / step.denominator());
  const Tensor inverse_denominator = engine.input({{}, DType::float32}, std::as_bytes(std::span(&inverse, 1)));
  const DeviceBatch batch = make_device_batch(engine, step.plan(), step.batch, rows);
  parts = decoder.train(parameters, batch, inverse_denominator);
  parameters.finish_reductions();
}

TracedMesh::TracedMesh(const StepCase& step) : step_(step) {
  const Mesh mesh = step.mesh();
  for (int device = 0; device < mesh.device_count(); ++device) {
    engines_.push_back(std::make_unique<XlaEngine>(mesh, device));
    XlaEngine& engine = *engines_.back();
    steps_.push_back(std::make_unique<TracedStep>(step, engine));
    const TracedStep& traced = *steps_.back();
    engine.add_result(traced.parts.sums);
    engine.add_result(traced.parts.nll);
    for (std::size_t g = 0; g < traced.parameters.layout().groups.size(); ++g) {
      engine.add_result(traced.parameters.gradient(g));
    }
  }
}

std::vector<XlaEngine*> TracedMesh::engines() const {
  std::vector<XlaEngine*> engines;
  for (const auto& engine : engines_) engines.push_back(engine.get());
  return engines;
}

ModelRunResult TracedMesh::collect() const {
  ModelRunResult result;
  result.nll.resize(step_.batch.inputs.size());
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    const std::vector<double> sums = read_doubles(*engines_[i], steps_[i]->parts.sums);
    result.loss += (sums[0] + sums[1]) / step_.denominator();
    collect_nll(*engines_[i], step_.plan(), steps_[i]->rows, steps_[i]->parts.nll, result);
    collect_gradients(steps_[i]->parameters, result);
  }
  return result;
}

}  // namespace maxtext::testing
