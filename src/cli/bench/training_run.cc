#include "cli/bench/training_run.h"

#include <chrono>

#include "base/error.h"
#include "base/seconds_since.h"
#include "data/synthetic_dataset.h"
#include "mesh/device_program.h"
#include "train/dry_step.h"
#include "train/step_flops.h"

namespace maxtext::bench {
namespace {

std::vector<std::vector<int>> device_cores(const Config& config, int devices) {
  std::vector<std::vector<int>> cores = split_cores(devices);
  const auto wanted = static_cast<std::size_t>(config.integer("threads_per_device"));
  for (std::vector<int>& list : cores) {
    if (wanted > 0 && list.size() > wanted) list.resize(wanted);
  }
  return cores;
}

RowBatch synthetic_batch(const RunSetup& setup) {
  SyntheticDataset::Options options;
  options.sequence_length = setup.sequence_length;
  options.vocab_size = setup.shape.vocab_size;
  return *SyntheticDataset(options).read(0, setup.batch.global);
}

}  // namespace

/// Everything that one device owns; made, used and destroyed on its thread.
struct TrainingRun::Device {
  Device(const RunSetup& setup, std::unique_ptr<Communicator> own_communicator, int threads)
      : communicator(std::move(own_communicator)),
        engine({.threads = threads}, *communicator),
        parameters(engine, model_layout(setup.shape, setup.mesh, engine.device())),
        optimizer(parameters, setup.optimizer),
        decoder(engine, setup.shape, setup.attention.of_layer, setup.decoder),
        train_step(decoder, parameters, optimizer) {
    parameters.initialise(0);
    engine.memory().reset_peak();
  }

  std::unique_ptr<Communicator> communicator;
  CpuEngine engine;
  ParameterShards parameters;
  Optimizer optimizer;
  Decoder decoder;
  TrainStep train_step;
};

TrainingRun::TrainingRun(const Config& config)
    : setup_(run_setup(config, std::nullopt)),
      batch_(synthetic_batch(setup_)),
      plan_(one_document_plan(setup_)),
      total_weights_(total_weights(batch_)),
      transport_(setup_.mesh),
      threads_(device_cores(config, setup_.mesh.device_count()),
               [this](int device, const std::string& reason) { transport_.abort(device, reason); }),
      devices_(static_cast<std::size_t>(setup_.mesh.device_count())) {
  const std::vector<std::vector<int>> cores = device_cores(config, devices());
  threads_.run([&](int device) {
    const auto index = static_cast<std::size_t>(device);
    devices_[index] =
        std::make_unique<Device>(setup_, transport_.communicator(device), static_cast<int>(cores[index].size()));
  });
}

TrainingRun::~TrainingRun() {
  try {
    threads_.run([&](int device) { devices_[static_cast<std::size_t>(device)].reset(); });
  } catch (const Error&) {
    // A device failed before, and whoever called `step` knows.
  }
}

double TrainingRun::step() {
  const auto start = std::chrono::steady_clock::now();
  threads_.run([&](int index) {
    Device& device = *devices_[static_cast<std::size_t>(index)];
    const auto micro_batch = [&](int m) {
      const RowRange rows = device_rows(setup_.mesh, index, batch_.rows, setup_.micro_batches, m);
      return make_device_batch(device.engine, plan_, batch_, rows);
    };
    const double learning_rate = learning_rate_at(setup_.schedule, steps_);
    const StepOutput output =
        device.train_step.run(steps_, learning_rate, setup_.micro_batches, micro_batch, total_weights_);
    if (index == 0) last_loss_ = output.loss;
  });
  ++steps_;
  return seconds_since(start);
}

double TrainingRun::flops_per_step() const {
  const StepFlops flops = step_flops(setup_.shape, static_cast<double>(setup_.batch.global), setup_.sequence_length);
  return flops.learnable_weights + flops.attention / 3 * 3.5;
}

std::int64_t TrainingRun::sum_over_devices(const std::function<std::int64_t(const Device&)>& value) const {
  std::int64_t sum = 0;
  for (const auto& device : devices_) sum += value(*device);
  return sum;
}

std::int64_t TrainingRun::peak_tensor_bytes() {
  return sum_over_devices([](const Device& device) { return device.engine.memory().peak_bytes(); });
}

std::int64_t TrainingRun::pooled_bytes() {
  return sum_over_devices([](const Device& device) { return device.engine.pooled_bytes(); });
}

}  // namespace maxtext::bench
