// What a training step is predicted to hold and to send, by the dry engine.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "train/dry_step.h"

namespace maxtext {

/// Calls, and bytes that a device sends, by the collective's name and the axes it goes over.
using CollectiveSums = std::map<std::pair<std::string, std::string>, CollectiveCounters::Entry>;

struct StepPrediction {
  std::int64_t peak_bytes = 0;
  /// What is held when the peak is reached.
  MemoryByKind peak_by_kind{};
  CollectiveSums collectives;
  std::map<std::string, double, std::less<>> flops_by_op;
};

/// The step of the mesh's first device. With `traces_loops`, as the xla engine runs it, otherwise as the cpu engine.
StepPrediction predict_step(const RunSetup& setup, const ContextPlan& plan, bool traces_loops);

/// {"peak_bytes", "peak_by_kind": {kind: bytes}}.
nlohmann::ordered_json memory_report(const StepPrediction& prediction);

/// [{"collective", "axes", "calls", "bytes"}].
nlohmann::ordered_json collective_report(const CollectiveSums& collectives);

/// A line for each entry of `collective_report`.
void print_collectives(const nlohmann::ordered_json& report);

/// "1.500 GiB".
std::string gib(const nlohmann::ordered_json& bytes);

}  // namespace maxtext
