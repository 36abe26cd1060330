#include "train/trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/available_memory.h"
#include "base/error.h"
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
  int processes_on_machine = 1;
};

Devices make_devices(const Config& config, const Mesh& mesh, bool launched) {
  TransportOptions options;
  options.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(config.real("collective_timeout_seconds") * 1000)));
  if (!launched) {
    if (mesh.device_count() > kMostThreadDevices) {
      fail_config(
          "the mesh has {} devices (data {}, fsdp {}, context {}), each a thread of this process: expected at most {}; "
          "lower ici_*_parallelism, or start processes with mpirun",
          mesh.device_count(), mesh.size(Axis::data), mesh.size(Axis::fsdp), mesh.size(Axis::context),
          kMostThreadDevices);
    }
    return {std::make_unique<ThreadTransport>(mesh, options), split_cores(mesh.device_count()), 1};
  }
  auto transport = std::make_unique<MpiTransport>(mesh, options);
  std::vector<std::vector<int>> cores{transport->cores()};
  const int processes = transport->count_on_machine();
  return {std::move(transport), std::move(cores), processes};
}

std::string mesh_in_words(const Mesh& mesh) {
  if (mesh.device_count() == 1) return "1 device";
  std::vector<std::string> axes;
  for (std::size_t i = 0; i < kConfiguredAxes.size(); ++i) {
    const int size = mesh.size(kConfiguredAxes[i]);
    if (size > 1) axes.push_back(fmt::format("{} {}", configured_axis_name(i), size));
  }
  return fmt::format("{} devices ({})", mesh.device_count(), fmt::join(axes, ", "));
}

std::string gib(std::int64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / static_cast<double>(std::int64_t{1} << 30));
}

/// "7321344 parameters, 2 devices (context 2), 4 rows and 8192 tokens per step, about 0.41 GiB of memory", and a
/// warning when the machine has less.
std::vector<std::string> opening_lines(const RunSetup& setup, const TrainEnvironment& environment,
                                       const Devices& devices, std::size_t local_devices, std::size_t wanted_threads) {
  std::string line =
      fmt::format("{} parameters, {}, {} rows and {} tokens per step", parameter_count(model_layout(setup.shape)),
                  mesh_in_words(setup.mesh), setup.batch.global, setup.batch.global * setup.sequence_length);
  const auto threads = static_cast<int>(wanted_threads > 0 ? wanted_threads : devices.cores.front().size());
  const auto process = environment.predict_memory(setup, static_cast<int>(local_devices), threads);
  if (!process) return {line};
  const int processes = devices.processes_on_machine;
  line += fmt::format(", about {} of memory{}", gib(*process), processes > 1 ? " per process" : "");
  const std::optional<std::int64_t> available = available_memory();
  if (!available || *process * processes <= *available) return {line};
  return {line, fmt::format("warning: about {} of memory is needed, and {} is available; `maxtext plan` "
                            "shows what takes it",
                            gib(*process * processes), gib(*available))};
}

}  // namespace

TrainSummary train(const Config& config, const TrainEnvironment& environment) {
  const RunSetup setup = run_setup(config, environment.launched_devices);
  const DatasetOptions data = dataset_options(config, setup.shape.vocab_size);
  source_files(data, Split::train);
  if (config.integer("eval_interval") > 0) source_files(data, Split::eval);
  check_given_start(config, setup);
  Devices local_devices = make_devices(config, setup.mesh, environment.launched_devices.value_or(1) > 1);
  Transport& transport = *local_devices.transport;
  const std::vector<int>& devices = transport.local_devices();
  const auto wanted_threads = static_cast<std::size_t>(config.integer("threads_per_device"));
  TrainProcess process(config, setup, std::move(local_devices.transport), environment.files, [&] {
    return opening_lines(setup, environment, local_devices, devices.size(), wanted_threads);
  });
  TrainSummary summary;
  const auto program = [&](int device) {
    const auto local = static_cast<std::size_t>(std::find(devices.begin(), devices.end(), device) - devices.begin());
    const int threads = pin_device_thread(local_devices.cores[local], wanted_threads);
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
