#include "cli/bench/report.h"

#include <fmt/format.h>

#include <fstream>

#include "engines/cpu/instruction_set.h"
#include "mesh/device_program.h"

namespace maxtext::bench {
namespace {

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

/// "seq 4096, head_dim 64".
std::string in_words(const Json& fields) {
  std::string text;
  for (const auto& [name, value] : fields.items()) {
    if (!text.empty()) text += ", ";
    text += name + ' ';
    if (value.is_string()) {
      text += value.get<std::string>();
    } else {
      text += value.is_number_float() ? fmt::format("{:.4g}", value.get<double>()) : value.dump();
    }
  }
  return text;
}

}  // namespace

Json machine_description(int threads) {
  return {{"cpu", cpu_name()},
          {"cores", split_cores(1).front().size()},
          {"threads", threads},
          {"instruction_set", std::string(instruction_set_name(active_instruction_set()))}};
}

Report::Report(std::string benchmark, int threads) {
  json_["benchmark"] = std::move(benchmark);
  json_["machine"] = machine_description(threads);
  json_["figures"] = Json::array();
  fmt::print("{}\n", in_words(json_["machine"]));
  std::fflush(stdout);
}

void Report::note(const std::string& name, const Json& value, const std::string& line) {
  json_[name] = value;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void Report::add(const std::string& what, const Json& configuration, const std::string& reference,
                 const Measurement& measurement, Unit unit, const Json& details) {
  Json figure;
  figure["what"] = what;
  figure["configuration"] = configuration;
  figure["reference"] = reference;
  figure["ratio"] = measurement.ratio;
  figure["lowest"] = measurement.lowest;
  figure["highest"] = measurement.highest;
  figure["pairs"] = measurement.pairs;
  figure["dropped"] = measurement.dropped;
  figure["rate"] = measurement.rate / unit.scale;
  figure["reference_rate"] = measurement.reference / unit.scale;
  figure["unit"] = std::string(unit.name);
  figure["details"] = details;
  json_["figures"].push_back(figure);
  if (!has_header_) {
    fmt::print(
        "| what / reference | configuration | ratio | spread | pairs (dropped) | rate | reference | details |\n");
    fmt::print("|---|---|---|---|---|---|---|---|\n");
  }
  has_header_ = true;
  const auto in_unit = [&](double value) { return fmt::format("{:.1f} {}", value / unit.scale, unit.name); };
  fmt::print("| {} / {} | {} | {:.1f}% | {:.1f} .. {:.1f} | {} ({}) | {} | {} | {} |\n", what, reference,
             in_words(configuration), 100 * measurement.ratio, 100 * measurement.lowest, 100 * measurement.highest,
             measurement.pairs, measurement.dropped, in_unit(measurement.rate), in_unit(measurement.reference),
             in_words(details));
  std::fflush(stdout);
}

}  // namespace maxtext::bench
