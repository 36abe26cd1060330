#include <fmt/format.h>

#include <memory>

#include "cli/bench/bench_config.h"
#include "cli/bench/benchmarks.h"
#include "cli/bench/decoded_model.h"
#include "cli/bench/gemm_peak.h"
#include "cli/bench/report.h"
#include "cli/bench/stream_read.h"
#include "cli/bench/team.h"
#include "config/model_shape.h"
#include "mesh/thread_transport.h"

namespace maxtext::bench {
namespace {

/// A model on this thread and its team.
DecodedModel single_model(const ModelShape& shape, const DecodeCase& sizes, std::int64_t max_length, int threads) {
  ThreadTransport transport{Mesh({1, 1, 1, 1})};
  return {transport.communicator(0), shape, sizes, max_length, threads};
}

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
    DecodedModel model = single_model(shape, sizes, context + sizes.steps, threads);
    model.set_context(context);
    const double bytes = model.bytes_per_step();
    const Measurement measured =
        alternate([&] { return read.measure(streams); }, [&] { return bytes * model.measure_steps(); }, options);
    const double steps_per_second = measured.rate / bytes;
    report.add("decode step, bytes read",
               {{"context", context},
                {"batch", sizes.batch},
                {"weights", dtype_name(sizes.weights)},
                {"kv_cache", dtype_name(sizes.cache)}},
               "best read", measured, kGigabytes,
               {{"tokens_per_second", steps_per_second * static_cast<double>(sizes.batch)},
                {"weight_mib", model.weight_bytes() / 1048576.0},
                {"bytes_per_step_mib", bytes / 1048576.0}});
  }
}

void measure_prompts(const ModelShape& shape, const Settings& settings, DecodeCase sizes, int threads, Report& report) {
  const ProtocolOptions options = protocol_options(settings);
  SquareProduct product(peak_size(settings));
  for (const std::int64_t tokens : settings.integers("prompt")) {
    sizes.batch = 1;
    DecodedModel model = single_model(shape, sizes, tokens, threads);
    model.measure_prompt(tokens);
    const double flops = prompt_flops(shape, tokens);
    const Measurement measured =
        alternate([&] { return product.measure(); }, [&] { return flops / model.measure_prompt(tokens); }, options);
    report.add("prompt", {{"tokens", tokens}, {"weights", dtype_name(sizes.weights)}}, "GEMM peak", measured,
               kGigaflops, {{"tokens_per_second", measured.rate / flops * static_cast<double>(tokens)}});
  }
}

void measure_sharing(const ModelShape& shape, const Settings& settings, const DecodeCase& sizes, Report& report) {
  const auto devices = static_cast<int>(settings.integer("devices"));
  for (const std::int64_t context : settings.integers("shared_context")) {
    SharedModel one(1, shape, sizes, context);
    SharedModel several(devices, shape, sizes, context);
    const auto rate = [&](SharedModel& model) { return model.measure_steps() * static_cast<double>(sizes.batch); };
    report.add("KV cache shared by devices, tokens/s",
               {{"context", context},
                {"devices", devices},
                {"batch", sizes.batch},
                {"weights", dtype_name(sizes.weights)},
                {"kv_cache", dtype_name(sizes.cache)}},
               "one device on all cores",
               alternate([&] { return rate(one); }, [&] { return rate(several); }, protocol_options(settings)),
               kTokens);
  }
}

}  // namespace

std::vector<Setting> decode_settings() {
  std::vector<Setting> list = protocol_settings();
  list.push_back(threads_setting());
  list.push_back(gemm_sizes_setting());
  list.push_back({"parts", "steps,prompts,sharing", "what is measured"});
  list.push_back({"devices", "2", "devices that share the cache, in the part sharing"});
  list.push_back({"shared_context", "16384", "positions in the cache, in the part sharing"});
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
  for (const std::string& part : settings.words("parts", {"steps", "prompts", "sharing"})) {
    for (const std::string& dtype : settings.words("dtypes", {"float32", "bfloat16", "float16"})) {
      for (const std::string& cache : settings.words("cache_dtypes", {"float32", "bfloat16", "float16", "int8"})) {
        const DecodeCase sizes{parse_dtype(dtype), parse_dtype(cache), settings.integer("sequences"),
                               static_cast<int>(settings.integer("steps"))};
        if (part == "steps") measure_decoding(shape, settings, sizes, threads, report);
        if (part == "sharing") measure_sharing(shape, settings, sizes, report);
        if (part == "prompts") measure_prompts(shape, settings, sizes, threads, report);
      }
    }
  }
  return report.json();
}

}  // namespace maxtext::bench
