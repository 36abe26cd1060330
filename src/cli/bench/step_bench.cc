#include <fmt/format.h>
#include <omp.h>

#include <cmath>
#include <fstream>

#include "base/error.h"
#include "cli/bench/bench_config.h"
#include "cli/bench/benchmarks.h"
#include "cli/bench/report.h"
#include "cli/bench/team.h"
#include "cli/bench/training_run.h"
#include "mesh/device_program.h"
#include "train/memory_use.h"

namespace maxtext::bench {
namespace {

/// Starts a new peak of the resident set (VmHWM) where the kernel can, so that each length shows its own.
void reset_peak_resident_bytes() { std::ofstream("/proc/self/clear_refs") << "5"; }

/// The GEMM peak with as many threads as the run has: with one device on that device's own team, since a second team
/// in the process would make OpenMP's waiting slower.
class RunPeak {
 public:
  RunPeak(TrainingRun& run, std::int64_t size) : run_(run), product_(size) {}
  double measure() {
    if (run_.devices() > 1) return product_.measure();
    double rate = 0;
    run_.on_first_device([&] { rate = product_.measure(); });
    return rate;
  }

 private:
  TrainingRun& run_;
  SquareProduct product_;
};

Json describe(const RunSetup& setup) {
  const ModelShape& shape = setup.shape;
  return {{"seq", setup.sequence_length},
          {"layers", shape.layers},
          {"emb", shape.hidden_size},
          {"query_heads", shape.query_heads},
          {"kv_heads", shape.kv_heads},
          {"head_dim", shape.head_dim},
          {"mlp", shape.intermediate_size},
          {"vocab", shape.vocab_size},
          {"batch", setup.batch.global},
          {"micro_batches", setup.micro_batches},
          {"devices", setup.mesh.device_count()},
          {"context_parallelism", setup.plan.context_parallelism}};
}

double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

void measure_length(const Config& config, std::int64_t peak, const ProtocolOptions& options, Report& report) {
  reset_peak_resident_bytes();
  TrainingRun run(config);
  // The first step touches memory; the second shows what a run keeps.
  run.step();
  run.step();
  const std::int64_t resident = peak_resident_bytes();
  RunPeak run_peak(run, peak);
  const double flops = run.flops_per_step();
  const Measurement measured =
      alternate([&] { return run_peak.measure(); }, [&] { return flops / run.step(); }, options);
  if (!std::isfinite(run.last_loss())) fail("the loss of the measured steps is not finite: {}", run.last_loss());
  Json configuration = describe(run.setup());
  configuration["remat_policy"] = config.text("remat_policy");
  const double seconds = flops / measured.rate;
  report.add("training step", configuration, "GEMM peak", measured, kGigaflops,
             {{"seconds", seconds},
              {"tokens_per_second", static_cast<double>(run.tokens_per_step()) / seconds},
              {"peak_tensors_mib", mebibytes(run.peak_tensor_bytes())},
              {"peak_resident_mib", mebibytes(resident)},
              {"loss", run.last_loss()}});
}

}  // namespace

std::vector<Setting> step_settings() {
  std::vector<Setting> list = {{"seq", "1024,2048,4096,8192,16384", "tokens of a row (max_target_length)"},
                               gemm_sizes_setting()};
  for (Setting& setting : protocol_settings()) list.push_back(std::move(setting));
  return list;
}

Json step_bench(const Assignments& assignments) {
  std::vector<std::string> overrides;
  const Settings settings("step", step_settings(), assignments, &overrides);
  const ProtocolOptions options = protocol_options(settings);
  const Config config = bench_config(step_preset(), overrides);
  std::vector<Config> configs;
  for (const std::int64_t length : settings.integers("seq")) configs.push_back(with_length(config, length));
  int threads = static_cast<int>(config.integer("threads_per_device"));
  if (threads == 0) threads = static_cast<int>(split_cores(1).front().size());
  Report report("step", threads);
  std::int64_t peak = 0;
  // On a thread of its own: the team of the main thread would stay behind.
  DeviceThreads({split_cores(1).front()}, [](int, const std::string&) {}).run([&](int) {
    omp_set_num_threads(threads);
    peak = peak_size(settings);
  });
  report.note("gemm_peak_size", peak, fmt::format("GEMM peak: oneDNN sgemm, {0}x{0}x{0}", peak));
  for (const Config& one : configs) measure_length(one, peak, options, report);
  return report.json();
}

}  // namespace maxtext::bench
