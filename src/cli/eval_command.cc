#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/arguments.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/engine_environment.h"
#include "cli/json_file.h"
#include "config/resolve.h"
#include "context/reorder.h"
#include "data/dataset_factory.h"
#include "data/open_dataset.h"
#include "inference/evaluate.h"
#include "model/tensor_parallel.h"

namespace maxtext {
namespace {

/// Each text once, in its own order.
DatasetOptions text_options(const Config& config, std::int64_t vocab_size) {
  DatasetOptions options = dataset_options(config, vocab_size);
  options.shuffle = false;
  options.epochs = 1;
  if (options.type == "text") {
    options.tokenizer = open_model_tokenizer(config);
    options.checks_each_token = true;
  }
  return options;
}

/// Held-out files where there are some, else all of the data.
Split text_split(const DatasetOptions& options) { return has_eval_split(options) ? Split::eval : Split::train; }

/// What is wrong with a text is wrong input.
std::shared_ptr<Dataset> open_text(const DatasetOptions& options) {
  try {
    return open_dataset(options, text_split(options));
  } catch (const Error& error) {
    throw ConfigError(error.what());
  }
}

/// Evaluation leaves no files: the tokens are in a folder that is gone before it ends, and lie there as long as they
/// are mapped.
std::shared_ptr<Dataset> open_text_once(DatasetOptions options) {
  std::string folder = (std::filesystem::temp_directory_path() / "maxtext-eval-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) fail("cannot create {}: {}", folder, std::strerror(errno));
  const auto remove = [&folder] {
    std::error_code stays;
    std::filesystem::remove_all(folder, stays);
  };
  options.cache_directory = folder;
  try {
    std::shared_ptr<Dataset> dataset = open_text(options);
    remove();
    return dataset;
  } catch (const std::exception&) {
    remove();
    throw;
  }
}

/// How generation keeps keys and values.
constexpr std::array<std::string_view, 5> kKeysOfGeneration = {"ici_context_autoregressive_parallelism",
                                                               "ici_autoregressive_parallelism", "kv_cache_dtype",
                                                               "quantize_kvcache", "prefill_chunk_size"};

void print_figures(const Evaluation& result) {
  fmt::print("tokens {}, mean nll {:.6f} +- {:.6f}, perplexity {:.4f} +- {:.4f}, {:.1f} tokens/s\n", result.tokens,
             result.mean_nll, result.standard_error, result.perplexity(), result.perplexity_error(),
             static_cast<double>(result.tokens) / result.seconds);
}

nlohmann::ordered_json json_report(const ModelFiles& files, const Evaluation& evaluation) {
  return {{"load_parameters_path", files.directory.string()},
          {"tokens", evaluation.tokens},
          {"rows", evaluation.rows},
          {"mean_nll", evaluation.mean_nll},
          {"standard_error", evaluation.standard_error},
          {"perplexity", evaluation.perplexity()},
          {"perplexity_error", evaluation.perplexity_error()},
          {"seconds", evaluation.seconds},
          {"tokens_per_second", static_cast<double>(evaluation.tokens) / evaluation.seconds}};
}

}  // namespace

int eval_command(const Arguments& arguments) {
  CommandLine command_line(
      "maxtext eval",
      "Mean negative log-likelihood and perplexity of a text (eval_files, or dataset_path) under a model.");
  Arguments rest;
  std::string json_path;
  command_line.config_option(rest);
  command_line.option("--json", json_path, "Write the figures to this file, too; - for standard output instead");
  if (!command_line.parse(arguments)) return 0;
  ConfigRequest request = config_request(rest);
  request.only_evaluates = true;
  const Config config = load_command_config(request, kKeysOfGeneration);
  if (config.text("dataset_type") == "synthetic") {
    fail_config("dataset_type=synthetic: eval needs a text: dataset_type=text dataset_path=FILE, or eval_files");
  }
  if (config.integer("max_target_length") < 2 && config.text("dataset_type") != "batches") {
    fail_config("{}: eval needs at least 2: the first token of a row is not predicted",
                config.describe("max_target_length"));
  }
  const ModelFiles files = open_model_files(config);
  if (files.weights == nullptr) fail_config("load_parameters_path is empty: name the model to evaluate");
  print_warnings(files.warnings);
  const DatasetOptions text = text_options(config, files.shape.vocab_size);
  JsonFile file(json_path, [&] {
    InputFiles inputs = source_files(text, text_split(text));
    std::ranges::move(input_files(request.file, config), std::back_inserter(inputs));
    return inputs;
  });
  if (text.tokenizer) print_notes(notes_on_tokenizer(*text.tokenizer, files.shape));
  // What the loading of data logs goes there, too.
  if (file.is_standard_output()) spdlog::set_level(spdlog::level::warn);
  const MeshSizes sizes = resolve_mesh(config);
  const Mesh mesh = model_mesh(files.shape, sizes);
  EvaluationOptions evaluation;
  evaluation.rows_per_batch = resolve_batch(config, sizes).micro;
  evaluation.reorder = parse_reorder_strategy(resolve_reorder_strategy(config));
  if (config.integer("eval_steps") > 0) evaluation.most_rows = config.integer("eval_steps") * evaluation.rows_per_batch;
  const bool keeps_tokens = !config.text("dataset_cache_directory").empty();
  const Evaluation result = evaluate(files.shape, *files.weights, keeps_tokens ? open_text(text) : open_text_once(text),
                                     mesh, evaluation, engine_environment(config, mesh.device_count(), false));
  if (!file.is_standard_output()) print_figures(result);
  file.write(json_report(files, result));
  return 0;
}

}  // namespace maxtext
