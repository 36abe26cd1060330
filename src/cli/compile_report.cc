#include "cli/compile_report.h"

#include <fmt/format.h>

#include <chrono>

#include "base/error.h"
#include "base/seconds_since.h"
#include "engines/xla/plugin.h"
#include "engines/xla/topology_backend.h"
#include "engines/xla/xla_engine.h"
#include "train/dry_step.h"

namespace maxtext {
namespace {

using Json = nlohmann::ordered_json;

std::unique_ptr<PjrtTopology> open_topology(const EngineChoice& choice) {
  const CompileTopology& topology = *choice.topology;
  const std::filesystem::path plugin = find_plugin(hardware_name(choice.hardware), choice.xla.plugin_path);
  if (choice.hardware == Hardware::gpu) {
    return PjrtTopology::open(plugin, topology.name,
                              {{"topology", gpu_topology_option(topology, choice.slices)},
                               {"target_config", gpu_target_config(*topology.accelerator)}});
  }
  PjrtOptions options;
  if (choice.slices > 1) options["num_slices"] = std::int64_t{choice.slices};
  return PjrtTopology::open(plugin, tpu_topology_name(topology), options);
}

Json memory_of(const CompiledMemory& memory) {
  return {{"peak_bytes", memory.peak},       {"argument_bytes", memory.arguments},    {"result_bytes", memory.results},
          {"aliased_bytes", memory.aliased}, {"temporary_bytes", memory.temporaries}, {"code_bytes", memory.code}};
}

Json collectives_of(const XlaEngine& engine) {
  Json list = Json::array();
  for (const XlaCollective& collective : engine.last_collectives()) {
    if (engine.mesh().size(collective.axes) == 1) continue;
    list.push_back({{"collective", std::string(collective_name(collective.kind))},
                    {"axes", to_string(collective.axes)},
                    {"calls", collective.calls},
                    {"bytes", collective.bytes}});
  }
  return list;
}

std::string gib(const Json& bytes) { return fmt::format("{:.3f} GiB", bytes.get<double>() / 1073741824.0); }

}  // namespace

XlaFlags xla_flags(const std::vector<XlaFlag>& flags) {
  XlaFlags result;
  for (const XlaFlag& flag : flags) {
    if (const auto* boolean = std::get_if<bool>(&flag.value)) {
      result[flag.name] = *boolean;
    } else if (const auto* integer = std::get_if<std::int64_t>(&flag.value)) {
      result[flag.name] = *integer;
    } else if (const auto* real = std::get_if<double>(&flag.value)) {
      result[flag.name] = *real;
    } else {
      result[flag.name] = std::get<std::string>(flag.value);
    }
  }
  return result;
}

Json compile_report(const EngineChoice& choice, const RunSetup& setup, const ContextPlan& plan) {
  const auto backend = std::make_shared<TopologyBackend>(open_topology(choice), setup.mesh.device_count(),
                                                         xla_flags(choice.xla.compiler_flags));
  XlaEngine engine(setup.mesh, 0, backend);
  const auto begin = std::chrono::steady_clock::now();
  dry_step(setup, plan, engine, [&] { engine.run(); });
  const double seconds = seconds_since(begin);
  const CompiledProgram& compiled = *backend->compiled();
  const std::int64_t limit =
      backend->device_memory_bytes() > 0 ? backend->device_memory_bytes() : choice.topology->accelerator->memory_bytes;
  return {{"topology", choice.topology->name},
          {"trace_seconds", seconds - compiled.compile_seconds()},
          {"program_bytes", engine.last_program().size()},
          {"compile_seconds", compiled.compile_seconds()},
          {"memory_per_device", memory_of(compiled.memory())},
          {"device_memory_bytes", limit},
          {"fits", compiled.memory().peak <= limit},
          {"collectives_per_device", collectives_of(engine)}};
}

void print_compile_report(const Json& report) {
  const Json& memory = report["memory_per_device"];
  fmt::print("\ncompiled for {} in {:.1f} s (traced in {:.2f} s, {} kB of StableHLO)\n",
             report["topology"].get<std::string>(), report["compile_seconds"].get<double>(),
             report["trace_seconds"].get<double>(), report["program_bytes"].get<std::int64_t>() / 1000);
  fmt::print("memory per device at its peak, by the compiler: {} of {}: {}\n", gib(memory["peak_bytes"]),
             gib(report["device_memory_bytes"]), report["fits"].get<bool>() ? "fits" : "does not fit");
  for (const char* const kind : {"argument_bytes", "result_bytes", "aliased_bytes", "temporary_bytes", "code_bytes"}) {
    fmt::print("  {:<22} {}\n", kind, gib(memory[kind]));
  }
  fmt::print("collectives in the program, per device\n");
  for (const Json& entry : report["collectives_per_device"]) {
    fmt::print("  {:<15} over {:<22} {:>6} calls  {}\n", entry["collective"].get<std::string>(),
               entry["axes"].get<std::string>(), entry["calls"].get<std::int64_t>(), gib(entry["bytes"]));
  }
}

}  // namespace maxtext
