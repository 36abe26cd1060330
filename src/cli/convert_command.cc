#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/error.h"
#include "checkpoint/hf_export.h"
#include "checkpoint/hf_import.h"
#include "cli/arguments.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "train/run_lock.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;

struct ConvertOptions {
  std::string from;
  std::string to;
  std::string format;
  std::string dtype;
  std::string max_shard_bytes = std::to_string(ExportOptions{}.max_shard_bytes);
};

/// The dtype of all weights; float32 when they differ.
DType common_dtype(const WeightSource& weights) {
  const std::vector<std::string> names = weights.names();
  if (names.empty()) return DType::float32;
  const DType first = weights.spec(names.front()).dtype;
  for (const std::string& name : names) {
    if (weights.spec(name).dtype != first) return DType::float32;
  }
  return first;
}

std::int64_t shard_bytes(const std::string& text) {
  std::int64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size() || bytes < 1) {
    fail_config("--max-shard-bytes {}: expected a number of bytes, as 5000000000", text);
  }
  return bytes;
}

/// FROM, found whole, before anything is written.
FoundWeights open_source(const std::string& from) {
  try {
    FoundWeights found = find_weights(from);
    verify_weights(found);
    if (found.weights->hf_config().empty()) fail("config.json is missing");
    print_warnings(found.notes);
    return found;
  } catch (const Error& error) {
    std::string_view reason = error.what();
    if (reason.starts_with(from + ": ")) reason.remove_prefix(from.size() + 2);
    fail_config("FROM {}: {}", from, reason);
  }
}

void to_hugging_face(const ConvertOptions& options) {
  if (fs::exists(options.to) && !(fs::is_directory(options.to) && fs::is_empty(options.to))) {
    fail_config("TO '{}' exists already: give a new or an empty folder", options.to);
  }
  const std::unique_ptr<WeightSource> weights = open_source(options.from).weights;
  const ExportOptions target{options.dtype.empty() ? common_dtype(*weights) : parse_dtype(options.dtype),
                             shard_bytes(options.max_shard_bytes)};
  PosixFileLayer files;
  export_hf_directory(*weights, options.to, target, files);
  fmt::print("wrote {} tensors as {} to {}\n", weights->names().size(), dtype_name(target.dtype), options.to);
}

void to_checkpoint(const ConvertOptions& options) {
  if (!options.dtype.empty()) fail_config("--dtype {}: a checkpoint keeps the dtype of its source", options.dtype);
  if (const fs::path newest = latest_checkpoint(options.to); !newest.empty()) {
    fail_config("TO '{}' is a run with checkpoints, the newest of step {}: give another run directory", options.to,
                newest.filename().string());
  }
  open_source(options.from);
  const RunLock lock(options.to);
  SaveOptions save;
  save.run_directory = options.to;
  const SaveResult result = import_hf_directory(options.from, save);
  fmt::print("wrote {}; start from it with load_parameters_path={}\n", result.directory.string(), options.to);
}

}  // namespace

int convert_command(const Arguments& arguments) {
  CommandLine command_line(
      "maxtext convert", "Convert a checkpoint into a Hugging Face directory, or such a directory into a checkpoint.");
  ConvertOptions options;
  command_line.option("FROM", options.from,
                      "A run directory (its newest checkpoint), a checkpoint (.../checkpoints/STEP), or a Hugging Face "
                      "directory",
                      {.required = true});
  command_line.option("TO", options.to, "A new directory; as a checkpoint, the run directory that gets checkpoint 0",
                      {.required = true});
  command_line.option("--to", options.format, "What to write (default: what FROM is not)",
                      {.one_of = {"huggingface", "checkpoint"}});
  command_line.option("--dtype", options.dtype, "Of the Hugging Face weights (default: as they are)",
                      {.one_of = {"float32", "bfloat16", "float16"}});
  command_line.option("--max-shard-bytes", options.max_shard_bytes, "Largest file of a Hugging Face directory",
                      {.shows_default = true});
  if (!command_line.parse(arguments)) return 0;
  shard_bytes(options.max_shard_bytes);
  if (!fs::exists(options.from)) fail_config("FROM '{}' does not exist", options.from);
  const std::string opposite = holds_checkpoint(options.from) ? "huggingface" : "checkpoint";
  if ((options.format.empty() ? opposite : options.format) == "huggingface") {
    to_hugging_face(options);
  } else {
    if (opposite == "huggingface") fail_config("FROM '{}' is a checkpoint already", options.from);
    to_checkpoint(options);
  }
  return 0;
}

}  // namespace maxtext
