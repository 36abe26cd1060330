// Figures of a benchmark: rows of a table on stdout, and JSON.
#pragma once

#include <string>
#include <string_view>

#include "cli/bench/json.h"
#include "cli/bench/protocol.h"

namespace maxtext::bench {

/// How a rate is printed: 2.1e11 FLOP/s with {"GFLOP/s", 1e9} as 210.0 GFLOP/s.
struct Unit {
  std::string_view name;
  double scale = 1;
};
inline constexpr Unit kGigaflops{"GFLOP/s", 1e9};
inline constexpr Unit kGigabytes{"GB/s", 1e9};
inline constexpr Unit kTokens{"tokens/s", 1};

class Report {
 public:
  /// `threads` of the reference belong to the description of the machine.
  Report(std::string benchmark, int threads);

  /// What has no ratio, printed as a line: "GEMM peak: 2048³".
  void note(const std::string& name, const Json& value, const std::string& line);

  /// One figure. `what` and `reference` name the two rates ("forward", "GEMM peak"), `configuration` holds what decides
  /// the work, `details` further figures, both printed as they are.
  void add(const std::string& what, const Json& configuration, const std::string& reference,
           const Measurement& measurement, Unit unit, const Json& details = Json::object());

  /// {"benchmark", "machine", notes, "figures": [{"what", "configuration", "reference", "ratio", "lowest", "highest",
  /// "pairs", "dropped", "rate", "reference_rate", "unit", "details"}]}, rates in the row's unit.
  const Json& json() const { return json_; }

 private:
  Json json_;
  bool has_header_ = false;
};

/// The CPU's name as the kernel tells it, cores that this process may use, threads, instruction set of the kernels.
Json machine_description(int threads);

}  // namespace maxtext::bench
