#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "base/error.h"
#include "cli/arguments.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/engine_environment.h"
#include "cli/output_file.h"
#include "config/resolve.h"
#include "context/reorder.h"
#include "inference/cached_logits.h"
#include "inference/decode_setup.h"
#include "inference/forward_logits.h"
#include "inference/logit_check.h"
#include "inference/model_files.h"
#include "inference/prompts.h"
#include "model/tensor_parallel.h"
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

/// The golden logits, or else the model's own.
std::vector<GoldenSequence> reference_logits(const Config& config, const ModelFiles& files,
                                             const CheckOptions& options) {
  std::vector<GoldenSequence> sequences = options.golden.empty()
                                              ? own_logits(config, files, engine_environment(config, 1, false))
                                              : read_golden_logits(options.golden);
  for (GoldenSequence& sequence : sequences) {
    sequence = shortened(std::move(sequence), options.token_size);
    check_ids(sequence, files.shape);
  }
  return sequences;
}

bool check_sequences(const Config& config, const ModelFiles& files, const std::vector<GoldenSequence>& golden,
                     const CheckOptions& options) {
  const Mesh mesh = model_mesh(files.shape, resolve_mesh(config));
  const ReorderStrategy reorder = parse_reorder_strategy(resolve_reorder_strategy(config));
  const DecodeEnvironment training = engine_environment(config, mesh.device_count(), false);
  CachedModelOptions cached = cached_model_options(config);
  const Mesh generation = generation_mesh(config, files.shape);
  const DecodeEnvironment decoding = engine_environment(config, generation.device_count(), true);
  bool fits = true;
  for (const GoldenSequence& sequence : golden) {
    fmt::print("'{}', {} tokens\n", sequence.prompt, sequence.ids.size());
    const auto compare = [&](const std::vector<float>& logits) {
      return compare_logits(sequence.logits, logits, sequence.vocab_size, options.rtol, options.clip_epsilon);
    };
    const auto trained = forward_logits(files.shape, *files.weights, sequence.ids, mesh, reorder, training);
    fits =
        report(fmt::format("training forward on {} devices", mesh.device_count()), compare(trained), options, true) &&
        fits;
    cached.cache.max_length = static_cast<std::int64_t>(sequence.ids.size());
    const auto generated = cached_logits(files, sequence.ids, cached, generation, decoding);
    fits = report(fmt::format("prefill and decode, {} cache on {} devices", dtype_name(cached.cache.dtype),
                              generation.device_count()),
                  compare(generated), options, false) &&
           fits;
  }
  return fits;
}

/// What --save_logits names: not the files that are read.
void check_target(const Config& config, const ConfigRequest& request, const CheckOptions& options) {
  const std::filesystem::path path = options.save;
  if (path.extension() != ".safetensors")
    fail_config("--save_logits {}: expected the name of a .safetensors", options.save);
  InputFiles inputs = input_files(request.file, config);
  if (!options.golden.empty()) {
    inputs.insert(inputs.end(), {options.golden, std::filesystem::path(options.golden) / "golden.safetensors"});
  }
  check_output_file("--save_logits", path, inputs);
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
  command_line.option(
      "--save_logits", options.save,
      "Write the golden logits to this .safetensors; without --atol and --max_kl_div nothing else is done");
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
  const bool checks = options.atol >= 0 || options.max_kl_div >= 0;
  if (!checks && options.save.empty()) {
    fail_config("give --atol or --max_kl_div: nothing would be checked; --save_logits alone only writes");
  }
  const ConfigRequest request = config_request(options.config);
  const Config config = load_command_config(request);
  const ModelFiles files = open_model_files(config);
  if (files.weights == nullptr) fail_config("load_parameters_path is empty: name the model to check");
  print_warnings(files.warnings);
  if (!options.save.empty()) check_target(config, request, options);
  const std::vector<GoldenSequence> golden = reference_logits(config, files, options);
  if (!options.save.empty()) save_logits(options.save, golden);
  if (!checks) return 0;
  const bool fits = check_sequences(config, files, golden, options);
  fmt::print("{}\n", fits ? "all within the limits" : "FAILED");
  return fits ? 0 : 1;
}

}  // namespace maxtext
