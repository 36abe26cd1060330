#include "cli/arguments.h"
#include "cli/commands.h"
#include "engines/cpu/cpu_engine.h"
#include "mesh/mpi_transport.h"
#include "train/trainer.h"

namespace maxtext {
namespace {

std::unique_ptr<Engine> make_cpu_engine(Communicator& communicator, int threads) {
  return std::make_unique<CpuEngine>(CpuEngineOptions{.threads = threads}, communicator);
}

}  // namespace

int train_command(const Arguments& arguments) {
  CLI::App options("Train a model. Resumes the run of the same run_name where it stopped.", "maxtext train");
  Arguments rest;
  options.add_option("config", rest, "FILE key=value ...: configs/base.yml or a run file, and overrides")->required();
  if (!parse_arguments(options, arguments)) return 0;
  ConfigRequest request = config_request(rest);
  TrainEnvironment environment;
  environment.make_engine = make_cpu_engine;
  if (launched_by_mpi()) environment.launched_devices = launched_process_count();
  request.launched_devices = environment.launched_devices;
  const Config config = load_config(request);
  note_ignored_keys(config);
  train(config, environment);
  return 0;
}

}  // namespace maxtext
