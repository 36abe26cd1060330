#include "cli/arguments.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/engine_environment.h"
#include "cli/resident_memory.h"
#include "config/xla_options.h"
#include "mesh/mpi_transport.h"
#include "train/trainer.h"

namespace maxtext {
namespace {

/// Rows beyond which planning a batch takes longer than the line in the log is worth.
constexpr std::int64_t kMostPredictedRows = 1 << 14;

std::optional<std::int64_t> predict_memory(const RunSetup& setup, int local_devices, int threads) {
  if (setup.batch.global > kMostPredictedRows) return std::nullopt;
  const bool one_process = local_devices == setup.mesh.device_count();
  const DeviceMemory device = device_memory(setup, one_document_plan(setup),
                                            one_process ? Placing::one_process : Placing::process_per_device, threads);
  return resident_bytes_of_process(device, local_devices);
}

}  // namespace

int train_command(const Arguments& arguments) {
  CommandLine command_line("maxtext train", "Train a model. Resumes the run of the same run_name where it stopped.");
  Arguments rest;
  command_line.config_option(rest);
  if (!command_line.parse(arguments)) return 0;
  ConfigRequest request = config_request(rest);
  TrainEnvironment environment;
  if (launched_by_mpi()) environment.launched_devices = launched_process_count();
  request.launched_devices = environment.launched_devices;
  const Config config = load_config(request);
  note_ignored_keys(config);
  environment.make_engine =
      engine_maker(config, run_setup(config, environment.launched_devices).mesh.device_count(), false);
  // What the native engine holds is known; a plugin's memory is its own.
  if (engine_choice(config).engine == EngineKind::native) environment.predict_memory = predict_memory;
  train(config, environment);
  return 0;
}

}  // namespace maxtext
