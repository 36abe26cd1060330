// Datasets by type, from plain options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/integer_array.h"
#include "data/text_reader.h"
#include "tokenizer/tokenizer.h"

namespace maxtext {

enum class Split { train, eval };

struct DatasetOptions {
  /// "synthetic", "text", "tokens" or "batches".
  std::string type = "synthetic";
  std::int64_t sequence_length = 0;
  /// Of the model: every token id must be below it.
  std::int64_t vocab_size = 0;

  /// Files, folders or globs.
  std::vector<std::string> train_files;
  /// Held-out data of its own; or else a share of the training documents.
  std::vector<std::string> eval_files;
  double eval_fraction = 0;

  /// text
  TextFormat train_format;
  TextFormat eval_format;
  std::filesystem::path tokenizer_path;
  /// As open_tokenizer takes it.
  std::string tokenizer_type;
  /// Opened already, in place of these two.
  std::shared_ptr<const Tokenizer> tokenizer;
  /// A tokenizer with more tokens than vocab_size is refused, or with this only a text that has such a token.
  bool checks_each_token = false;
  bool add_bos = true;
  bool add_eos = true;
  /// tokens
  IntegerType token_type = IntegerType::uint16;
  std::optional<std::int32_t> separator_id;
  /// text and tokens
  std::filesystem::path cache_directory;
  bool packing = true;
  /// Documents per packed row at most; 0 sets no limit.
  std::int64_t max_segments = 0;
  bool shuffle = true;
  std::uint64_t seed = 0;
  /// Passes over the training data; nothing means without end. An evaluation is always one pass, in order.
  std::optional<std::int64_t> epochs = 1;
};

/// Rows of the held-out split of `synthetic`, which has no end otherwise.
inline constexpr std::int64_t kSyntheticEvalRows = 32;

/// Whether the options name any held-out data.
bool has_eval_split(const DatasetOptions& options);

/// The files of a split; none for `synthetic`. Throws ConfigError that names the key for what can be wrong with them by
/// their names alone, in no time: nothing found, a folder without files of this type, another extension. open_dataset
/// does the same, but may tokenise the training data before anybody asks for the held-out data.
std::vector<std::filesystem::path> source_files(const DatasetOptions& options, Split split);

/// Opens the data of a split. Everything that can be wrong without looking into the data is a ConfigError and comes
/// first: unknown type, missing files, a tokenizer that cannot be read or is larger than vocab_size; and with
/// checks_each_token, a token that is not below it, naming its document. What else the data itself gets wrong is an
/// Error. Text is tokenised here, the first time.
std::shared_ptr<Dataset> open_dataset(const DatasetOptions& options, Split split);

}  // namespace maxtext
