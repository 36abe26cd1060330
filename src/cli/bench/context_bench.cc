#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cli/bench/attention_case.h"
#include "cli/bench/bench_config.h"
#include "cli/bench/benchmarks.h"
#include "cli/bench/report.h"
#include "cli/bench/training_run.h"
#include "mesh/device_program.h"

namespace maxtext::bench {
namespace {

constexpr Unit kMilliseconds{"ms", 1e-3};

double tokens_per_second(TrainingRun& run) { return static_cast<double>(run.tokens_per_step()) / run.step(); }

/// Two runs of the same work that take turns: tokens per second of `work` against `reference`.
void compare_runs(const std::string& what, const Json& configuration, const std::string& against,
                  const Config& reference, const Config& work, const ProtocolOptions& options, Report& report) {
  TrainingRun reference_run(reference);
  TrainingRun work_run(work);
  for (TrainingRun* run : {&reference_run, &work_run}) run->step();
  const Measurement measured =
      alternate([&] { return tokens_per_second(reference_run); }, [&] { return tokens_per_second(work_run); }, options);
  report.add(what, configuration, against, measured, kTokens,
             {{"max_over_mean_area", work_run.plan().imbalance()},
              {"reference_max_over_mean_area", reference_run.plan().imbalance()},
              {"loss", work_run.last_loss()},
              {"reference_loss", reference_run.last_loss()}});
}

Config with_reordering(Config config, bool on) {
  config.set("context_parallel_load_balance", on ? "true" : "false", {SourceKind::command_line, "command line"});
  return config;
}

/// Seconds that each device needs for attention, forward and backward, all at the same time.
class AttentionTimes {
 public:
  AttentionTimes(const AttentionSizes& sizes, const ContextPlan& plan)
      : threads_(split_cores(plan.context_parallelism()), [](int, const std::string&) {}),
        cases_(static_cast<std::size_t>(plan.context_parallelism())),
        seconds_(cases_.size()) {
    threads_.run([&](int device) {
      cases_[static_cast<std::size_t>(device)] = std::make_unique<AttentionCase>(sizes, plan, device, 1);
    });
  }

  const std::vector<double>& measure() {
    threads_.run([&](int device) {
      AttentionCase& mine = *cases_[static_cast<std::size_t>(device)];
      const auto work = [&] {
        mine.forward();
        mine.backward();
      };
      seconds_[static_cast<std::size_t>(device)] = seconds_per_call(work, 0);
    });
    return seconds_;
  }

 private:
  DeviceThreads threads_;
  std::vector<std::unique_ptr<AttentionCase>> cases_;
  std::vector<double> seconds_;
};

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The median over rounds of the slowest device's time over the mean: what a step waits for. Medians of each device's
/// time first would hide more noise, but their ratio can lie outside of the spread of the rounds.
Measurement measure_balance(AttentionTimes& times, int rounds) {
  times.measure();
  Measurement result{.pairs = rounds};
  std::vector<double> ratios;
  std::vector<double> slowest;
  std::vector<double> means;
  for (int round = 0; round < rounds; ++round) {
    const std::vector<double>& seconds = times.measure();
    slowest.push_back(std::ranges::max(seconds));
    means.push_back(mean(seconds));
    ratios.push_back(slowest.back() / means.back());
  }
  result.ratio = median(ratios);
  result.lowest = std::ranges::min(ratios);
  result.highest = std::ranges::max(ratios);
  result.rate = median(slowest);
  result.reference = median(means);
  return result;
}

struct ContextBench {
  const Settings& settings;
  ProtocolOptions options;
  std::vector<std::string> overrides;
  int devices;
  Report& report;

  void throughput() {
    const Config config = bench_config(step_preset(), overrides);
    for (const std::int64_t length : settings.integers("seq")) {
      compare_runs("context parallelism, tokens/s", {{"seq", length}, {"context_parallelism", devices}},
                   "one device on all cores", with_length(config, length, 1), with_length(config, length, devices),
                   options, report);
    }
  }

  void reordering() {
    const Config config = bench_config(attention_bound_preset(), overrides);
    for (const std::int64_t length : settings.integers("reordering_seq")) {
      const Config parallel = with_length(config, length, devices);
      compare_runs("reordering on, tokens/s", {{"seq", length}, {"context_parallelism", devices}}, "reordering off",
                   with_reordering(parallel, false), with_reordering(parallel, true), options, report);
    }
  }

  void balance() {
    for (const std::int64_t length : settings.integers("balance_seq")) {
      for (const ReorderStrategy reorder : {ReorderStrategy::automatic, ReorderStrategy::none}) {
        AttentionSizes sizes;
        sizes.sequence_length = length;
        const ContextPlan plan = attention_plan(sizes, devices, reorder);
        AttentionTimes times(sizes, plan);
        report.add("slowest device's attention time",
                   {{"seq", length},
                    {"context_parallelism", devices},
                    {"reordering", std::string(reorder_strategy_name(plan.strategy()))}},
                   "mean", measure_balance(times, options.pairs), kMilliseconds,
                   {{"max_over_mean_area", plan.imbalance()}});
      }
    }
  }
};

}  // namespace

std::vector<Setting> context_settings() {
  std::vector<Setting> list = {
      {"parts", "throughput,reordering,balance", "what is measured"},
      {"devices", "2", "devices along the sequence, which share the cores"},
      {"seq", "4096,8192", "throughput: tokens of a row"},
      {"reordering_seq", "32768", "reordering: tokens of a row"},
      {"balance_seq", "16384,32768", "balance: tokens of a row, 8 query heads on 2 KV heads of 64"}};
  for (Setting& setting : protocol_settings()) list.push_back(std::move(setting));
  return list;
}

Json context_bench(const Assignments& assignments) {
  std::vector<std::string> overrides;
  const Settings settings("context", context_settings(), assignments, &overrides);
  const std::vector<std::string> parts = settings.words("parts", {"throughput", "reordering", "balance"});
  Report report("context", static_cast<int>(split_cores(1).front().size()));
  ContextBench bench{.settings = settings,
                     .options = protocol_options(settings),
                     .overrides = overrides,
                     .devices = static_cast<int>(settings.integer("devices")),
                     .report = report};
  for (const std::string& part : parts) {
    if (part == "throughput") bench.throughput();
    if (part == "reordering") bench.reordering();
    if (part == "balance") bench.balance();
  }
  return report.json();
}

}  // namespace maxtext::bench
