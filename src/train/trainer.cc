#include "train/trainer.h"

#include <algorithm>

#include "mesh/device_program.h"
#include "mesh/mpi_transport.h"
#include "mesh/thread_transport.h"
#include "train/device_trainer.h"

namespace maxtext {
namespace {

std::unique_ptr<Transport> make_transport(const Config& config, const Mesh& mesh, bool launched) {
  TransportOptions options;
  options.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(config.real("collective_timeout_seconds") * 1000));
  if (launched) return std::make_unique<MpiTransport>(mesh, options);
  return std::make_unique<ThreadTransport>(mesh, options);
}

/// The cores of each local device: those of this process dealt among its devices, or the first `threads_per_device`.
std::vector<std::vector<int>> device_cores(const Config& config, std::size_t local_devices) {
  std::vector<std::vector<int>> cores = split_cores(static_cast<int>(local_devices));
  const auto wanted = static_cast<std::size_t>(config.integer("threads_per_device"));
  for (std::vector<int>& list : cores) {
    if (wanted > 0 && list.size() > wanted) list.resize(wanted);
  }
  return cores;
}

}  // namespace

TrainSummary train(const Config& config, const TrainEnvironment& environment) {
  const RunSetup setup = run_setup(config, environment.launched_devices);
  TrainProcess process(config, setup, make_transport(config, setup.mesh, environment.launched_devices.value_or(1) > 1));
  Transport& transport = process.transport();
  const std::vector<int>& devices = transport.local_devices();
  const std::vector<std::vector<int>> cores = device_cores(config, devices.size());
  const std::int64_t wanted_threads = config.integer("threads_per_device");
  TrainSummary summary;
  const auto program = [&](int device) {
    const auto local = static_cast<std::size_t>(std::find(devices.begin(), devices.end(), device) - devices.begin());
    pin_current_thread(cores[local]);
    const int threads = wanted_threads > 0 ? static_cast<int>(wanted_threads) : static_cast<int>(cores[local].size());
    const std::unique_ptr<Communicator> communicator = transport.communicator(device);
    const std::unique_ptr<Engine> engine = environment.make_engine(*communicator, threads);
    const TrainSummary mine = DeviceTrainer(process, *engine).run();
    if (local == 0) summary = mine;
  };
  run_devices(devices, program, [&](int device, const std::string& reason) { transport.abort(device, reason); });
  return summary;
}

}  // namespace maxtext
