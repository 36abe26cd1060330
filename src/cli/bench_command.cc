#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "cli/bench/benchmarks.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/json_file.h"
#include "config/load.h"
#include "config/nearest.h"

namespace maxtext {
namespace {

struct Benchmark {
  std::string_view name;
  std::string_view summary;
  std::vector<bench::Setting> (*settings)();
  bench::Json (*run)(const bench::Assignments& assignments);
  bool takes_file = false;  // among its arguments, one of a configuration
};

constexpr std::array kBenchmarks = {
    Benchmark{"gemm", "matrix products against the peak", bench::gemm_settings, bench::gemm_bench},
    Benchmark{"bandwidth", "memory reads against the best read", bench::bandwidth_settings, bench::bandwidth_bench},
    Benchmark{"decode_weights", "products of a row with weights, as decoding has them, against the best read",
              bench::decode_weights_settings, bench::decode_weights_bench},
    Benchmark{"attention", "attention forward and backward against the GEMM peak", bench::attention_settings,
              bench::attention_bench},
    Benchmark{"decode_attention", "attention of a decode step against the best memory read and its speed in cache",
              bench::decode_attention_settings, bench::decode_attention_bench},
    Benchmark{"decode",
              "decode steps of a model against the best read, prompts against the GEMM peak; takes any configuration "
              "key, or a configuration file first",
              bench::decode_settings, bench::decode_bench, true},
    Benchmark{"step",
              "training steps against the GEMM peak, with tokens/s and memory; takes any configuration key, or "
              "a configuration file first",
              bench::step_settings, bench::step_bench, true},
    Benchmark{"context", "context parallelism against one device, reordering against none; takes any configuration key",
              bench::context_settings, bench::context_bench, true},
};

std::string all_keys_help() {
  std::string text;
  for (const Benchmark& benchmark : kBenchmarks) {
    text += fmt::format("{}: {}\n", benchmark.name, benchmark.summary);
    for (const bench::Setting& setting : benchmark.settings()) {
      text += fmt::format("  {}={}  {}\n", setting.name, setting.value, setting.help);
    }
  }
  return text;
}

const Benchmark& find_benchmark(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Benchmark& benchmark : kBenchmarks) {
    if (benchmark.name == name) return benchmark;
    names.push_back(benchmark.name);
  }
  fail_config("bench: '{}' is not a benchmark{}; there are {}", name, did_you_mean(name, names),
              fmt::join(names, ", "));
}

/// The files that a benchmark's configuration may come from.
InputFiles files_of(const Benchmark& benchmark, const Arguments& assignments) {
  const auto file =
      std::ranges::find_if(assignments, [](const std::string& text) { return text.find('=') == std::string::npos; });
  return benchmark.takes_file && file != assignments.end() ? configuration_files(*file) : InputFiles();
}

}  // namespace

int bench_command(const Arguments& arguments) {
  CommandLine command_line(
      "maxtext bench", "Measure speed as a ratio of two things in alternation: median of the pairs and their spread.");
  std::string name;
  Arguments assignments;
  std::string json_path;
  command_line.option("benchmark", name,
                      "gemm, bandwidth, decode_weights, attention, decode_attention, decode, step or context",
                      {.required = true});
  command_line.option("settings", assignments, "key=value ..., lists separated by commas");
  command_line.option("--json", json_path, "Write the figures with their configuration to this file");
  command_line.footer(all_keys_help());
  if (!command_line.parse(arguments)) return 0;
  const Benchmark& benchmark = find_benchmark(name);
  if (json_path == "-") fail_config("--json -: expected the name of a file");
  JsonFile json(json_path, [&] { return files_of(benchmark, assignments); });
  json.write(benchmark.run(assignments));
  return 0;
}

}  // namespace maxtext
