#include "train/trainer.h"

#include <algorithm>
#include <cmath>

#include "data/dataset_factory.h"
#include "mesh/device_program.h"
#include "mesh/mpi_transport.h"
#include "mesh/thread_transport.h"
#include "train/device_trainer.h"

namespace maxtext {
namespace {

/// What carries collectives, and the cores of each local device.
struct Devices {
  std::unique_ptr<Transport> transport;
  std::vector<std::vector<int>> cores;
};

Devices make_devices(const Config& config, const Mesh& mesh, bool launched) {
  TransportOptions options;
  options.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(config.real("collective_timeout_seconds") * 1000)));
  if (!launched) return {std::make_unique<ThreadTransport>(mesh, options), split_cores(mesh.device_count())};
  auto transport = std::make_unique<MpiTransport>(mesh, options);
  std::vector<std::vector<int>> cores{transport->cores()};
  return {std::move(transport), std::move(cores)};
}

}  // namespace

TrainSummary train(const Config& config, const TrainEnvironment& environment) {
  const RunSetup setup = run_setup(config, environment.launched_devices);
  const DatasetOptions data = dataset_options(config, setup.shape.vocab_size);
  check_sources(data, Split::train);
  if (config.integer("eval_interval") > 0) check_sources(data, Split::eval);
  Devices local_devices = make_devices(config, setup.mesh, environment.launched_devices.value_or(1) > 1);
  Transport& transport = *local_devices.transport;
  TrainProcess process(config, setup, std::move(local_devices.transport), environment.files);
  const std::vector<int>& devices = transport.local_devices();
  const auto wanted_threads = static_cast<std::size_t>(config.integer("threads_per_device"));
  TrainSummary summary;
  const auto program = [&](int device) {
    const auto local = static_cast<std::size_t>(std::find(devices.begin(), devices.end(), device) - devices.begin());
    std::vector<int> cores = local_devices.cores[local];
    if (wanted_threads > 0 && cores.size() > wanted_threads) cores.resize(wanted_threads);
    pin_current_thread(cores);
    const auto threads = static_cast<int>(wanted_threads > 0 ? wanted_threads : cores.size());
    const std::unique_ptr<Communicator> communicator = transport.communicator(device);
    const std::unique_ptr<Engine> engine = environment.make_engine(*communicator, threads);
    DeviceTrainer trainer(process, *engine);
    try {
      const TrainSummary mine = trainer.run();
      if (local == 0) summary = mine;
    } catch (const PeerFailure&) {
      throw;
    } catch (const std::exception& error) {
      // Before the trainer's end, which waits for the disk if a save reads its memory.
      transport.abort(device, error.what());
      process.give_up(device, error.what());
      throw;
    }
  };
  run_devices(devices, program, [&](int device, const std::string& reason) { transport.abort(device, reason); });
  return summary;
}

}  // namespace maxtext
