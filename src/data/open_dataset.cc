#include "data/open_dataset.h"

#include <algorithm>

#include "base/error.h"
#include "config/key_error.h"
#include "data/batches_dataset.h"
#include "data/document_dataset.h"
#include "data/source_files.h"
#include "data/synthetic_dataset.h"
#include "data/text_documents.h"
#include "data/token_files.h"

namespace maxtext {
namespace {

using Files = std::vector<std::filesystem::path>;

/// Held-out documents that are a share of the training data come from its files.
bool splits_documents(const DatasetOptions& options) { return options.eval_files.empty() && options.eval_fraction > 0; }

std::vector<std::string> folder_extensions(const DatasetOptions& options) {
  if (options.type == "batches") return {".safetensors"};
  if (options.type == "tokens") return {".npy", ".bin"};
  return {".txt", ".text", ".md", ".jsonl"};
}

std::shared_ptr<Dataset> open_synthetic(const DatasetOptions& options, Split split) {
  SyntheticDataset::Options synthetic;
  synthetic.sequence_length = options.sequence_length;
  synthetic.vocab_size = options.vocab_size;
  synthetic.seed = options.seed;
  synthetic.stream = split == Split::train ? 0 : 1;
  if (split == Split::eval) synthetic.rows = kSyntheticEvalRows;
  return std::make_shared<SyntheticDataset>(synthetic);
}

std::shared_ptr<Dataset> open_batches(const DatasetOptions& options, Split split) {
  const auto epochs = split == Split::train ? options.epochs : 1;
  return std::make_shared<BatchesDataset>(source_files(options, split),
                                          BatchesDataset::Options{options.sequence_length, options.vocab_size, epochs});
}

/// "a.txt", or "a.txt and 2 more files".
std::string describe_files(const Files& files) {
  const std::string first = files.front().string();
  return files.size() == 1 ? first : fmt::format("{} and {} more files", first, files.size() - 1);
}

std::shared_ptr<const Tokenizer> tokenizer_of(const DatasetOptions& options) {
  if (options.tokenizer) return options.tokenizer;
  return open_for_key("tokenizer_path", options.tokenizer_path.string(), [&] {
    return std::shared_ptr<const Tokenizer>(open_tokenizer(options.tokenizer_path, options.tokenizer_type));
  });
}

/// The first token of a document that is not below `vocab_size`.
std::optional<std::int32_t> token_beyond(const TokenStore& store, std::int64_t document, std::int64_t vocab_size) {
  constexpr std::int64_t kMostAtOnce = 1 << 16;
  const std::int64_t length = store.length(document);
  std::vector<std::int32_t> ids;
  for (std::int64_t begin = 0; begin < length; begin += kMostAtOnce) {
    ids.resize(static_cast<std::size_t>(std::min(kMostAtOnce, length - begin)));
    store.read(document, begin, ids);
    const auto beyond = std::ranges::find_if(ids, [&](std::int32_t id) { return id >= vocab_size; });
    if (beyond != ids.end()) return *beyond;
  }
  return std::nullopt;
}

/// Tokens are kept for models of any size, so that this is asked of what is kept, which has documents and no lines.
void check_tokens(const TokenStore& store, const Tokenizer& tokenizer, const Files& files, std::int64_t vocab_size) {
  for (std::int64_t document = 0; document < store.documents(); ++document) {
    const std::optional<std::int32_t> id = token_beyond(store, document, vocab_size);
    if (!id) continue;
    fail_config(
        "{}: document {}: the tokenizer gives the id {} ('{}'), the model has vocab_size={}: they do not belong "
        "together",
        describe_files(files), document + 1, *id, tokenizer.id_to_token(*id), vocab_size);
  }
}

std::shared_ptr<const TokenStore> open_text(const DatasetOptions& options, Split split) {
  const auto files = source_files(options, split);
  const auto tokenizer = tokenizer_of(options);
  const bool larger = tokenizer->vocab_size() > options.vocab_size;
  if (larger && !options.checks_each_token) {
    fail_config("vocab_size={}: the tokenizer {} has {} tokens", options.vocab_size, options.tokenizer_path.string(),
                tokenizer->vocab_size());
  }
  const bool eval_format = split == Split::eval && !splits_documents(options);
  auto store = open_text_documents(files, *tokenizer,
                                   {eval_format ? options.eval_format : options.train_format, options.add_bos,
                                    options.add_eos, options.cache_directory});
  if (larger) check_tokens(*store, *tokenizer, files, options.vocab_size);
  return store;
}

std::shared_ptr<const TokenStore> open_tokens(const DatasetOptions& options, Split split) {
  if (options.separator_id && *options.separator_id >= options.vocab_size) {
    fail_config("document_separator_id={}: expected an id below vocab_size={}", *options.separator_id,
                options.vocab_size);
  }
  return open_token_files(source_files(options, split),
                          {options.vocab_size, options.token_type, options.separator_id, options.cache_directory});
}

std::shared_ptr<Dataset> open_documents(std::shared_ptr<const TokenStore> store, const DatasetOptions& options,
                                        Split split) {
  const bool training = split == Split::train;
  DocumentDatasetOptions documents;
  documents.sequence_length = options.sequence_length;
  documents.packing = options.packing;
  documents.max_segments = options.max_segments;
  documents.shuffle = training && options.shuffle;
  documents.seed = options.seed;
  documents.epochs = training ? options.epochs : 1;
  documents.source = describe_files(source_files(options, split));
  if (splits_documents(options)) {
    documents.choice = training ? DocumentChoice::training : DocumentChoice::held_out;
    documents.held_out_fraction = options.eval_fraction;
  }
  return std::make_shared<DocumentDataset>(std::move(store), documents);
}

}  // namespace

bool has_eval_split(const DatasetOptions& options) {
  return options.type == "synthetic" || !options.eval_files.empty() || options.eval_fraction > 0;
}

Files source_files(const DatasetOptions& options, Split split) {
  if (options.type == "synthetic") return {};
  if (split == Split::eval && !has_eval_split(options)) {
    fail_config("eval_files: there is no held-out data; set eval_files or eval_split_fraction");
  }
  if (split == Split::eval && options.type == "batches" && options.eval_files.empty()) {
    fail_config("eval_files: dataset_type=batches needs files of its own for held-out data");
  }
  const bool own_files = split == Split::eval && !splits_documents(options);
  const std::string_view key = own_files ? "eval_files" : "train_files";
  Files files = expand_sources(key, own_files ? options.eval_files : options.train_files, folder_extensions(options));
  if (options.type != "tokens") return files;
  std::erase_if(files, is_document_index);
  if (files.empty()) fail_config("{}: only indices of documents, no token ids", key);
  for (const std::filesystem::path& file : files) {
    if (file.extension() == ".npy" || file.extension() == ".bin") continue;
    fail_config("{}: {}: expected a .npy or .bin file of token ids", key, file.string());
  }
  return files;
}

std::shared_ptr<Dataset> open_dataset(const DatasetOptions& options, Split split) {
  if (options.sequence_length < 1) fail_config("max_target_length={}: expected at least 1", options.sequence_length);
  if (options.vocab_size < 1) fail_config("vocab_size={}: expected at least 1", options.vocab_size);
  if (options.type == "synthetic") return open_synthetic(options, split);
  if (options.type == "batches") return open_batches(options, split);
  if (options.type == "text") return open_documents(open_text(options, split), options, split);
  if (options.type == "tokens") return open_documents(open_tokens(options, split), options, split);
  fail_config("dataset_type: expected synthetic, text, tokens or batches, got '{}'", options.type);
}

}  // namespace maxtext
