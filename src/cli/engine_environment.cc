#include "cli/engine_environment.h"

#include <spdlog/spdlog.h>

#include <chrono>

#include "base/error.h"
#include "cli/compile_report.h"
#include "config/xla_options.h"
#include "engines/cpu/cpu_engine.h"
#include "engines/xla/plugin.h"
#include "engines/xla/xla_engine.h"
#include "engines/xla/xla_runtime.h"
#include "mesh/mpi_transport.h"

namespace maxtext {
namespace {

std::shared_ptr<XlaRuntime> open_runtime(const Config& config, const EngineChoice& choice, int devices) {
  if (launched_by_mpi() && launched_process_count() > 1) {
    fail_config("engine=xla drives all devices from one process, but {} were started: leave mpirun out",
                launched_process_count());
  }
  if (choice.xla.verify_first_step) fail_config("xla_verify_first_step=true is not implemented yet");
  const std::string_view hardware = hardware_name(choice.hardware);
  const std::filesystem::path plugin = find_plugin(hardware, choice.xla.plugin_path);
  PjrtOptions options;
  if (choice.hardware == Hardware::cpu) options["cpu_device_count"] = std::int64_t{devices};
  std::unique_ptr<PjrtClient> client = PjrtClient::open(plugin, options);
  spdlog::info("xla: {} ({})", to_string(client->description()), plugin.string());
  if (client->description().devices < devices) {
    fail_config("hardware={}: the mesh has {} devices, but the plugin has {}; lower ici_*_parallelism", hardware,
                devices, client->description().devices);
  }
  const auto timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(config.real("collective_timeout_seconds") * 1000));
  return std::make_shared<XlaRuntime>(
      std::move(client), devices,
      XlaRuntimeOptions{
          .dump_to = choice.xla.dump_directory, .flags = xla_flags(choice.xla.compiler_flags), .timeout = timeout});
}

}  // namespace

MakeEngine engine_maker(const Config& config, int devices, bool few_rows) {
  const EngineChoice choice = engine_choice(config);
  if (choice.engine == EngineKind::native) {
    return [few_rows](Communicator& communicator, int threads) -> std::unique_ptr<Engine> {
      return std::make_unique<CpuEngine>(CpuEngineOptions{.threads = threads, .fast_few_rows = few_rows}, communicator);
    };
  }
  return [runtime = open_runtime(config, choice, devices)](Communicator& communicator, int) -> std::unique_ptr<Engine> {
    return std::make_unique<XlaEngine>(communicator.mesh(), communicator.device(), runtime);
  };
}

DecodeEnvironment engine_environment(const Config& config, int devices, bool few_rows) {
  return {.make_engine = engine_maker(config, devices, few_rows),
          .threads_per_device = static_cast<int>(config.integer("threads_per_device"))};
}

}  // namespace maxtext
