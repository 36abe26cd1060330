#include "cli/step_prediction.h"

#include <fmt/format.h>

#include "engines/dry/dry_engine.h"

namespace maxtext {

using Json = nlohmann::ordered_json;

StepPrediction predict_step(const RunSetup& setup, const ContextPlan& plan, bool traces_loops) {
  DryEngine engine(setup.mesh, 0, {.shares_memory = false, .traces_loops = traces_loops});
  dry_step(setup, plan, engine, [&] { engine.reset_records(); });
  StepPrediction prediction{.peak_bytes = engine.memory().peak_bytes(),
                            .peak_by_kind = engine.memory().peak_by_kind(),
                            .collectives = {},
                            .flops_by_op = engine.flops_by_op()};
  for (const RecordedCollective& collective : engine.collectives()) {
    CollectiveCounters::Entry& entry =
        prediction.collectives[{std::string(collective_name(collective.kind)), to_string(collective.axes)}];
    ++entry.calls;
    entry.bytes += collective.bytes;
  }
  return prediction;
}

Json memory_report(const StepPrediction& prediction) {
  Json by_kind;
  for (int i = 0; i < kMemoryKindCount; ++i) {
    by_kind[std::string(memory_kind_name(static_cast<MemoryKind>(i)))] =
        prediction.peak_by_kind[static_cast<std::size_t>(i)];
  }
  return {{"peak_bytes", prediction.peak_bytes}, {"peak_by_kind", by_kind}};
}

Json collective_report(const CollectiveSums& collectives) {
  Json list = Json::array();
  for (const auto& [key, entry] : collectives) {
    list.push_back({{"collective", key.first}, {"axes", key.second}, {"calls", entry.calls}, {"bytes", entry.bytes}});
  }
  return list;
}

void print_collectives(const Json& report) {
  for (const Json& entry : report) {
    fmt::print("  {:<15} over {:<22} {:>6} calls  {}\n", entry["collective"].get<std::string>(),
               entry["axes"].get<std::string>(), entry["calls"].get<std::int64_t>(), gib(entry["bytes"]));
  }
}

std::string gib(const Json& bytes) { return fmt::format("{:.3f} GiB", bytes.get<double>() / 1073741824.0); }

}  // namespace maxtext
