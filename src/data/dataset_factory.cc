#include "data/dataset_factory.h"

#include <algorithm>

#include "config/resolve.h"

namespace maxtext {
namespace {

TextFormat text_format(const Config& config, const char* columns_key) {
  TextFormat format;
  const auto& columns = config.list(columns_key);
  if (!columns.empty()) format.jsonl_field = columns.front();
  format.document_separator = config.text("document_separator");
  return format;
}

std::filesystem::path cache_directory(const Config& config) {
  const std::string& directory = config.text("dataset_cache_directory");
  if (!directory.empty()) return directory;
  return std::filesystem::path(config.text("base_output_directory")) / "dataset_cache";
}

}  // namespace

DatasetOptions dataset_options(const Config& config, std::int64_t vocab_size) {
  DatasetOptions options;
  options.type = config.text("dataset_type");
  options.sequence_length = config.integer("max_target_length");
  options.vocab_size = vocab_size;
  options.train_files = resolve_train_files(config);
  options.eval_files = resolve_eval_files(config);
  options.eval_fraction = config.real("eval_split_fraction");
  options.train_format = text_format(config, "train_data_columns");
  options.eval_format = text_format(config, "eval_data_columns");
  options.tokenizer_path = config.text("tokenizer_path");
  options.tokenizer_type = resolve_tokenizer_type(config);
  options.add_bos = config.flag("add_bos");
  options.add_eos = config.flag("add_eos");
  options.token_type = parse_integer_type(config.text("token_file_dtype"));
  const std::int64_t separator = config.integer("document_separator_id");
  if (separator >= 0) options.separator_id = static_cast<std::int32_t>(separator);
  options.cache_directory = cache_directory(config);
  options.packing = config.flag("packing");
  options.max_segments = std::max<std::int64_t>(config.integer("max_segments_per_seq"), 0);
  options.shuffle = config.flag("enable_data_shuffling");
  options.seed = static_cast<std::uint64_t>(config.integer("data_shuffle_seed"));
  options.epochs = config.integer("num_epoch");
  return options;
}

}  // namespace maxtext
