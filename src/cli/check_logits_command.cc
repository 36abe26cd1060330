#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "cli/arguments.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/cpu_environment.h"
#include "config/resolve.h"
#include "context/reorder.h"
#include "inference/forward_logits.h"
#include "inference/logit_check.h"
#include "inference/model_files.h"
#include "inference/prompts.h"
#include "mesh/thread_transport.h"
#include "tensor/safetensors.h"
#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

struct CheckOptions {
  Arguments config;
  std::string golden;
  std::string save;
  double atol = -1;
  double rtol = 1e-5;
  double max_kl_div = -1;
  double clip_epsilon = 0;
  std::int64_t token_size = 0;
};

/// By prefill and decode steps: the first half of the sequence is a prompt, each other token a step.
std::vector<float> cached_logits(const ModelFiles& files, const std::vector<std::int32_t>& ids,
                                 const DecodeEnvironment& environment) {
  ThreadTransport transport{Mesh({1, 1, 1, 1})};
  std::vector<float> result;
  run_on_devices(transport, environment, [&](Engine& engine) {
    const InferenceWeights weights(engine, files.shape, *files.weights);
    CachedModelOptions options;
    options.cache.max_length = static_cast<std::int64_t>(ids.size());
    CachedModel model(engine, files.shape, weights, options);
    const std::size_t prompt = (ids.size() + 1) / 2;
    const auto keep = [&](std::int64_t, std::span<const float> logits) {
      result.insert(result.end(), logits.begin(), logits.end());
    };
    model.prefill_all(0, std::span(ids).first(prompt), keep);
    for (std::size_t t = prompt; t < ids.size(); ++t) {
      keep(0, model.step(std::vector<int>{0}, std::span(ids).subspan(t, 1)).front());
    }
  });
  return result;
}

void print_top(const LogitComparison& comparison) {
  fmt::print("  {:>4}  {:>22}  {:>22}\n", "rank", "golden: id, logit", "here: id, logit");
  for (std::size_t i = 0; i < comparison.golden_top.size(); ++i) {
    const RankedToken& golden = comparison.golden_top[i];
    const RankedToken& actual = comparison.actual_top[i];
    fmt::print("  {:>4}  {:>10} {:>11.5f}  {:>10} {:>11.5f}\n", i + 1, golden.id, golden.logit, actual.id,
               actual.logit);
  }
}

/// True when within the limits.
bool report(const std::string& what, const LogitComparison& comparison, const CheckOptions& options, bool per_token) {
  fmt::print("{}: max |difference| {:.3e} at position {}, relative {:.3e}; max KL {:.3e} at position {}\n", what,
             comparison.max_abs_difference, comparison.worst_position, comparison.max_rel_difference,
             comparison.max_kl(), comparison.worst_kl_position);
  if (per_token) {
    fmt::print("  top tokens of the last position\n");
    print_top(comparison);
    fmt::print("  KL per token:");
    for (const double kl : comparison.kl) fmt::print(" {:.2e}", kl);
    fmt::print("\n");
  }
  bool fits = true;
  if (options.atol >= 0 && !(comparison.max_excess <= options.atol)) {
    fmt::print("  FAILED: beyond atol={} + rtol={} by {:.3e}\n", options.atol, options.rtol,
               comparison.max_excess - options.atol);
    fits = false;
  }
  if (options.max_kl_div >= 0 && !(comparison.max_kl() < options.max_kl_div)) {
    fmt::print("  FAILED: KL {:.3e} is not below max_kl_div={}\n", comparison.max_kl(), options.max_kl_div);
    fits = false;
  }
  return fits;
}

GoldenSequence shortened(GoldenSequence sequence, std::int64_t tokens) {
  if (tokens <= 0 || tokens >= static_cast<std::int64_t>(sequence.ids.size())) return sequence;
  sequence.ids.resize(static_cast<std::size_t>(tokens));
  sequence.logits.resize(static_cast<std::size_t>(tokens * sequence.vocab_size));
  return sequence;
}

void check_ids(const GoldenSequence& sequence, const ModelShape& shape) {
  if (sequence.vocab_size != shape.vocab_size) {
    fail_config("'{}': the golden logits have {} tokens, the model has vocab_size={}", sequence.prompt,
                sequence.vocab_size, shape.vocab_size);
  }
  for (const std::int32_t id : sequence.ids) {
    if (id < 0 || id >= shape.vocab_size) fail_config("'{}': token {} is not in the vocabulary", sequence.prompt, id);
  }
}

/// What the model itself computes for the prompts of the configuration, on one device.
std::vector<GoldenSequence> own_logits(const Config& config, const ModelFiles& files,
                                       const DecodeEnvironment& environment) {
  const std::unique_ptr<Tokenizer> tokenizer = open_model_tokenizer(config);
  std::vector<GoldenSequence> sequences;
  for (const auto& [prompt, origin] : read_prompts(config)) {
    GoldenSequence sequence;
    sequence.prompt = prompt.size() <= 40 ? prompt : prompt.substr(0, utf8_boundary(prompt, 40)) + "…";
    sequence.ids = tokenizer->encode(prompt, {.add_special_tokens = config.flag("add_bos")});
    sequence.vocab_size = files.shape.vocab_size;
    check_ids(sequence, files.shape);
    sequence.logits = forward_logits(files.shape, *files.weights, sequence.ids, Mesh({1, 1, 1, 1}),
                                     ReorderStrategy::none, environment);
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

void save_logits(const std::string& path, const std::vector<GoldenSequence>& sequences) {
  std::vector<NamedBytes> tensors;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const GoldenSequence& sequence = sequences[i];
    const auto tokens = static_cast<std::int64_t>(sequence.ids.size());
    const std::string name = fmt::format("prompt{}", i);
    tensors.push_back(
        {name + ".logits", {{tokens, sequence.vocab_size}, DType::float32}, std::as_bytes(std::span(sequence.logits))});
    tensors.push_back({name + ".input_ids", {{tokens}, DType::int32}, std::as_bytes(std::span(sequence.ids))});
  }
  write_safetensors(path, tensors);
  fmt::print("wrote the logits of {} prompts to {}\n", sequences.size(), path);
}

bool check_sequences(const Config& config, const CheckOptions& options) {
  const ModelFiles files = open_model_files(config);
  if (files.weights == nullptr) fail_config("load_parameters_path is empty: name the model to check");
  for (const std::string& warning : files.warnings) fmt::print(stderr, "{}\n", warning);
  const Mesh mesh(resolve_mesh(config));
  const ReorderStrategy reorder = parse_reorder_strategy(resolve_reorder_strategy(config));
  const DecodeEnvironment training = cpu_environment(config, false);
  const DecodeEnvironment decoding = cpu_environment(config, true);
  const bool own = options.golden.empty();
  std::vector<GoldenSequence> golden = own ? own_logits(config, files, training) : read_golden_logits(options.golden);
  if (!options.save.empty()) save_logits(options.save, golden);
  bool fits = true;
  for (GoldenSequence& whole : golden) {
    const GoldenSequence sequence = shortened(std::move(whole), options.token_size);
    check_ids(sequence, files.shape);
    fmt::print("'{}', {} tokens\n", sequence.prompt, sequence.ids.size());
    const auto compare = [&](const std::vector<float>& logits) {
      return compare_logits(sequence.logits, logits, sequence.vocab_size, options.rtol, options.clip_epsilon);
    };
    const auto trained = forward_logits(files.shape, *files.weights, sequence.ids, mesh, reorder, training);
    fits =
        report(fmt::format("training forward on {} devices", mesh.device_count()), compare(trained), options, true) &&
        fits;
    fits = report("prefill and decode", compare(cached_logits(files, sequence.ids, decoding)), options, false) && fits;
  }
  return fits;
}

}  // namespace

int check_logits_command(const Arguments& arguments) {
  CommandLine command_line("maxtext check-logits",
                           "Compare a model's logits with golden ones, through the training forward on the mesh of the "
                           "configuration and through prefill and decode. Exits with 1 beyond the limits.");
  CheckOptions options;
  command_line.config_option(options.config);
  command_line.option(
      "--golden_logits_path", options.golden,
      "A .jsonl with prompt, tokens and logits, a .safetensors with NAME.input_ids and NAME.logits, or a "
      "folder with golden.safetensors; without it, the model's own on one device for prompt or prompt_file");
  command_line.option("--save_logits", options.save, "Write the golden logits to this .safetensors");
  command_line.option("--atol", options.atol, "Largest |difference| beyond rtol",
                      {.range = OptionRule::Range::non_negative});
  command_line.option("--rtol", options.rtol, "Share of |golden| that is allowed beside atol",
                      {.shows_default = true, .range = OptionRule::Range::non_negative});
  command_line.option("--max_kl_div", options.max_kl_div, "Every token's KL(golden || here) has to be below, in nats",
                      {.range = OptionRule::Range::non_negative});
  command_line.option("--token_size", options.token_size, "Only the first tokens of each sequence",
                      {.range = OptionRule::Range::positive});
  command_line.option("--clip_logits_epsilon", options.clip_epsilon, "Probabilities below count as this in KL",
                      {.range = OptionRule::Range::non_negative});
  if (!command_line.parse(arguments)) return 0;
  if (options.atol < 0 && options.max_kl_div < 0) fail_config("give --atol or --max_kl_div: nothing would be checked");
  const Config config = load_command_config(options.config);
  const bool fits = check_sequences(config, options);
  fmt::print("{}\n", fits ? "all within the limits" : "FAILED");
  return fits ? 0 : 1;
}

}  // namespace maxtext
