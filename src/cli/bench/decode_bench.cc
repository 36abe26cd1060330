#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "cli/bench/bench_config.h"
#include "cli/bench/benchmarks.h"
#include "cli/bench/gemm_peak.h"
#include "cli/bench/report.h"
#include "cli/bench/stream_read.h"
#include "cli/bench/team.h"
#include "config/model_shape.h"
#include "engines/cpu/cpu_engine.h"
#include "inference/cached_model.h"
#include "mesh/thread_transport.h"

namespace maxtext::bench {
namespace {

struct DecodeCase {
  DType weights = DType::float32;
  DType cache = DType::float32;
  std::int64_t batch = 1;
  int steps = 0;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A model of random weights on one device.
class DecodedModel {
 public:
  DecodedModel(const ModelShape& shape, const DecodeCase& sizes, std::int64_t max_length, int threads)
      : sizes_(sizes),
        engine_({.threads = threads, .fast_few_rows = true}, *communicator_),
        weights_(engine_, shape, 1, sizes.weights),
        model_(engine_, shape, weights_, options(sizes, max_length)) {}

  void set_context(std::int64_t length) {
    context_ = length;
    for (int slot = 0; slot < model_.slots(); ++slot) model_.pretend_length(slot, length);
    measure_steps();
  }

  /// Bytes per second that some steps read at least: the weights, and keys and values of the context.
  double measure_steps() {
    std::vector<int> slots;
    for (int slot = 0; slot < model_.slots(); ++slot) slots.push_back(slot);
    const std::vector<std::int32_t> ids(slots.size(), 1);
    const auto start = std::chrono::steady_clock::now();
    for (int step = 0; step < sizes_.steps; ++step) model_.step(slots, ids);
    const double seconds = seconds_since(start) / sizes_.steps;
    for (int slot = 0; slot < model_.slots(); ++slot) model_.shorten(slot, context_);
    return bytes_per_step() / seconds;
  }

  double bytes_per_step() const {
    const KeyValueCache& cache = model_.cache();
    const double per_position =
        static_cast<double>(cache.bytes()) / static_cast<double>(cache.capacity() * model_.slots());
    return static_cast<double>(weights_.bytes_per_step()) +
           per_position * static_cast<double>(context_ * model_.slots());
  }
  double weight_bytes() const { return static_cast<double>(weights_.bytes_per_step()); }

  /// Seconds to read a prompt of `tokens`.
  double measure_prompt(std::int64_t tokens) {
    const std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens), 1);
    const auto start = std::chrono::steady_clock::now();
    model_.prefill(0, ids, {});
    return seconds_since(start);
  }

 private:
  static CachedModelOptions options(const DecodeCase& sizes, std::int64_t max_length) {
    CachedModelOptions options;
    options.cache = {.sequences = sizes.batch, .max_length = max_length, .dtype = sizes.cache};
    return options;
  }

  DecodeCase sizes_;
  ThreadTransport transport_{Mesh({1, 1, 1, 1})};
  std::unique_ptr<Communicator> communicator_ = transport_.communicator(0);
  CpuEngine engine_;
  InferenceWeights weights_;
  CachedModel model_;
  std::int64_t context_ = 0;
};

/// 2 · parameters of the layers a token, causal attention, and the head once.
double prompt_flops(const ModelShape& shape, std::int64_t tokens) {
  const auto count = static_cast<double>(tokens);
  const auto embedding = static_cast<double>(shape.vocab_size * shape.hidden_size);
  const double layers = static_cast<double>(parameter_count(shape)) - embedding * (shape.tie_word_embeddings ? 1 : 2);
  const double attention =
      4 * count * count / 2 * static_cast<double>(shape.query_heads * shape.head_dim * shape.layers);
  return 2 * layers * count + attention + 2 * embedding;
}

void measure_decoding(const ModelShape& shape, const Settings& settings, DecodeCase sizes, int threads,
                      Report& report) {
  const ProtocolOptions options = protocol_options(settings);
  const std::vector<std::int64_t> contexts = settings.integers("context", 0);
  StreamRead read(settings.integer("read_mebibytes") << 20, threads);
  const int streams = best_streams(read, {1, 2, 4, 8});
  for (const std::int64_t context : contexts) {
    DecodedModel model(shape, sizes, context + 64, threads);
    model.set_context(context);
    const Measurement measured =
        alternate([&] { return read.measure(streams); }, [&] { return model.measure_steps(); }, options);
    const double steps_per_second = measured.rate / model.bytes_per_step();
    report.add("decode step, bytes read",
               {{"context", context},
                {"batch", sizes.batch},
                {"weights", dtype_name(sizes.weights)},
                {"kv_cache", dtype_name(sizes.cache)}},
               "best read", measured, kGigabytes,
               {{"tokens_per_second", steps_per_second * static_cast<double>(sizes.batch)},
                {"weight_mib", model.weight_bytes() / 1048576.0},
                {"bytes_per_step_mib", model.bytes_per_step() / 1048576.0}});
  }
}

void measure_prompts(const ModelShape& shape, const Settings& settings, DecodeCase sizes, int threads, Report& report) {
  const ProtocolOptions options = protocol_options(settings);
  SquareProduct product(peak_size(settings));
  for (const std::int64_t tokens : settings.integers("prompt")) {
    sizes.batch = 1;
    DecodedModel model(shape, sizes, tokens + 64, threads);
    model.measure_prompt(tokens);
    const double flops = prompt_flops(shape, tokens);
    const Measurement measured =
        alternate([&] { return product.measure(); }, [&] { return flops / model.measure_prompt(tokens); }, options);
    report.add("prompt", {{"tokens", tokens}, {"weights", dtype_name(sizes.weights)}}, "GEMM peak", measured,
               kGigaflops, {{"tokens_per_second", measured.rate / flops * static_cast<double>(tokens)}});
  }
}

}  // namespace

std::vector<Setting> decode_settings() {
  std::vector<Setting> list = protocol_settings();
  list.push_back(threads_setting());
  list.push_back(gemm_sizes_setting());
  list.push_back({"parts", "steps,prompts", "what is measured"});
  list.push_back({"context", "0,2048,8192,32768", "positions in the cache at a decode step"});
  list.push_back({"prompt", "512,4096", "tokens of a prompt"});
  list.push_back({"dtypes", "float32,bfloat16", "how weights are stored: float32, bfloat16, float16"});
  list.push_back({"cache_dtypes", "float32", "how keys and values are kept: float32, bfloat16, float16, int8"});
  list.push_back({"sequences", "1", "sequences decoded together"});
  list.push_back({"steps", "8", "decode steps of one timing"});
  list.push_back({"read_mebibytes", "1024", "memory that is read for the peak"});
  return list;
}

Json decode_bench(const Assignments& assignments) {
  std::vector<std::string> overrides;
  const Settings settings("decode", decode_settings(), assignments, &overrides);
  const ModelShape shape = model_shape(bench_config(decode_preset(), overrides));
  const int threads = use_team(settings);
  Report report("decode", threads);
  for (const std::string& part : settings.words("parts", {"steps", "prompts"})) {
    for (const std::string& dtype : settings.words("dtypes", {"float32", "bfloat16", "float16"})) {
      for (const std::string& cache : settings.words("cache_dtypes", {"float32", "bfloat16", "float16", "int8"})) {
        const DecodeCase sizes{parse_dtype(dtype), parse_dtype(cache), settings.integer("sequences"),
                               static_cast<int>(settings.integer("steps"))};
        if (part == "steps") measure_decoding(shape, settings, sizes, threads, report);
        if (part == "prompts") measure_prompts(shape, settings, sizes, threads, report);
      }
    }
  }
  return report.json();
}

}  // namespace maxtext::bench
