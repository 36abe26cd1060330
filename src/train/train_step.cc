#include "train/train_step.h"

#include <cmath>

namespace maxtext {
namespace {

/// Along kTensorAxes all devices find the same loss.
constexpr AxisSet kLossAxes = Axis::data | Axis::fsdp | Axis::context;

Tensor scalar_input(Engine& engine, float value) {
  return engine.input({{}, DType::float32}, std::as_bytes(std::span(&value, 1)));
}

Tensor reduce_over_devices(Engine& engine, AxisSet axes, const Tensor& local, ReduceOp reduce) {
  return engine.apply_one(AllReduce{.axes = axes, .group_size = engine.mesh().size(axes), .reduce = reduce}, {local});
}

}  // namespace

std::vector<double> read_doubles(Engine& engine, const Tensor& tensor) {
  std::vector<double> values(static_cast<std::size_t>(tensor.elements()), 0.0);
  engine.read(tensor, std::as_writable_bytes(std::span(values)));
  return values;
}

StepOutput TrainStep::run(std::int64_t step, double learning_rate, int micro_batches,
                          const std::function<DeviceBatch(int)>& micro_batch, double total_weights,
                          const std::function<bool()>& flag, const std::function<void()>& before_update) {
  Engine& engine = parameters_.engine();
  const double denominator = total_weights + 1e-8;
  Tensor sums;
  {
    const Tensor inverse = scalar_input(engine, static_cast<float>(1 / denominator));
    for (int m = 0; m < micro_batches; ++m) {
      const LossParts parts = decoder_.train(parameters_, micro_batch(m), inverse);
      sums = sums.defined() ? engine.apply_one(Add{.in_place = true}, {sums, parts.sums}) : parts.sums;
    }
  }
  const Tensor loss_sums = reduce_over_devices(engine, kLossAxes, sums, ReduceOp::sum);
  const bool mine = flag && flag();
  const Tensor flags =
      reduce_over_devices(engine, kLossAxes | kTensorAxes, scalar_input(engine, mine ? 1.0F : 0.0F), ReduceOp::max);
  const Optimizer::Result update = optimizer_.update(step, learning_rate, before_update);

  StepOutput output;
  const std::vector<double> totals = read_doubles(engine, loss_sums);
  output.loss = (totals[0] + totals[1]) / denominator;
  output.gradient_sums_of_squares = read_doubles(engine, update.sums_of_squares);
  float norm = 0;
  engine.read(update.gradient_norm, std::as_writable_bytes(std::span(&norm, 1)));
  output.gradient_norm = norm;
  float any = 0;
  engine.read(flags, std::as_writable_bytes(std::span(&any, 1)));
  output.flag = any > 0;
  return output;
}

double evaluate_batch(Decoder& decoder, ParameterShards& parameters, const DeviceBatch& batch) {
  Engine& engine = parameters.engine();
  const LossParts parts = decoder.evaluate(parameters, batch);
  return read_doubles(engine, reduce_over_devices(engine, kLossAxes, parts.sums, ReduceOp::sum))[0];
}

}  // namespace maxtext
