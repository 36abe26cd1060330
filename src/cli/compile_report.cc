#include "cli/compile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/seconds_since.h"
#include "cli/memory_advice.h"
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

CollectiveSums collectives_of(const XlaEngine& engine) {
  CollectiveSums sums;
  for (const XlaCollective& collective : engine.last_collectives()) {
    sums[{std::string(collective_name(collective.kind)), to_string(collective.axes)}] = {collective.calls,
                                                                                         collective.bytes};
  }
  return sums;
}

/// Without what is called in groups of one device, and goes nowhere.
CollectiveSums travelling(CollectiveSums sums) {
  std::erase_if(sums, [](const auto& entry) { return entry.second.bytes == 0; });
  return sums;
}

bool equal(const CollectiveSums& a, const CollectiveSums& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.calls == y.second.calls && x.second.bytes == y.second.bytes;
  });
}

void print_memory(const Json& report) {
  const Json& memory = report["memory_per_device"];
  fmt::print("memory per device at its peak, by the compiler: {} of {}: {}\n", gib(memory["peak_bytes"]),
             gib(report["device_memory_bytes"]), report["fits"].get<bool>() ? "fits" : "does not fit");
  fmt::print("  {:<22} {}, {:.0f}% of it\n", "predicted", gib(report["predicted_peak_bytes"]),
             100 * report["predicted_over_compiler"].get<double>());
  for (const char* const kind : {"argument_bytes", "result_bytes", "aliased_bytes", "temporary_bytes", "code_bytes"}) {
    fmt::print("  {:<22} {}\n", kind, gib(memory[kind]));
  }
}

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

Json compile_report(const EngineChoice& choice, const RunSetup& setup, const ContextPlan& plan,
                    const StepPrediction& prediction) {
  const auto backend = std::make_shared<TopologyBackend>(open_topology(choice), setup.mesh.device_count(),
                                                         xla_flags(choice.xla.compiler_flags));
  XlaEngine engine(setup.mesh, 0, backend);
  const auto begin = std::chrono::steady_clock::now();
  dry_step(setup, plan, engine, [&] { engine.run(); });
  const double seconds = seconds_since(begin);
  const std::int64_t limit =
      backend->device_memory_bytes() > 0 ? backend->device_memory_bytes() : choice.topology->accelerator->memory_bytes;
  const CompiledProgram* const compiled = backend->compiled();
  const bool fits = compiled != nullptr && compiled->memory().peak <= limit;
  const CollectiveSums collectives = travelling(collectives_of(engine));
  Json report = {{"topology", choice.topology->name},
                 {"trace_seconds", seconds - backend->compile_seconds()},
                 {"program_bytes", engine.last_program().size()},
                 {"compile_seconds", backend->compile_seconds()},
                 {"device_memory_bytes", limit},
                 {"predicted_peak_bytes", prediction.peak_bytes},
                 {"fits", fits}};
  if (compiled != nullptr) {
    report["memory_per_device"] = memory_of(compiled->memory());
    report["predicted_over_compiler"] =
        static_cast<double>(prediction.peak_bytes) / static_cast<double>(compiled->memory().peak);
  } else {
    report["refusal"] = backend->refusal()->what();
  }
  if (!fits) report["largest"] = largest_items(setup, prediction);
  report["collectives_per_device"] = collective_report(collectives);
  report["collectives_as_predicted"] = equal(collectives, travelling(prediction.collectives));
  return report;
}

void print_compile_report(const Json& report) {
  fmt::print("\n{} for {} in {:.1f} s (traced in {:.2f} s, {} kB of StableHLO)\n",
             report.contains("refusal") ? "refused by the compiler" : "compiled", report["topology"].get<std::string>(),
             report["compile_seconds"].get<double>(), report["trace_seconds"].get<double>(),
             report["program_bytes"].get<std::int64_t>() / 1000);
  if (report.contains("refusal")) {
    fmt::print("{}\nof each device's {} the prediction takes {}: does not fit\n", report["refusal"].get<std::string>(),
               gib(report["device_memory_bytes"]), gib(report["predicted_peak_bytes"]));
  } else {
    print_memory(report);
  }
  if (report.contains("largest")) print_largest_items(report["largest"]);
  fmt::print("collectives in the program, per device: {}\n",
             report["collectives_as_predicted"].get<bool>() ? "those predicted" : "NOT those predicted");
  print_collectives(report["collectives_per_device"]);
}

}  // namespace maxtext
