#include "config/key_groups.h"

namespace maxtext {
namespace {

/// A hundred times the longest contexts trained today; what is above is a slip of the keyboard, which would look for
/// memory and time without end.
constexpr double kMostTokens = 1 << 24;

KeyGroup batch_keys() {
  return {
      "Batch",
      {
          integer_key("max_target_length", 2048, "Tokens per row").at_least(1).at_most(kMostTokens),
          real_key("per_device_batch_size", 12,
                   "Rows per device and micro-batch; a fraction under context parallelism, as 0.125 with 8 devices "
                   "along context")
              .more_than(0)
              .at_most(1e9),
          integer_key("global_batch_size", 0,
                      "Rows per step over all devices and micro-batches, so that the data of a step does not depend "
                      "on the number of devices; 0 leaves it to per_device_batch_size")
              .ours()
              .at_least(0)
              .at_most(1e9),
          integer_key("gradient_accumulation_steps", 1, "Micro-batches per step").at_least(1).at_most(1e9),
          boolean_key("packing", true, "Put several documents into one row; attention stays inside documents"),
          integer_key("max_segments_per_seq", -1, "Documents per packed row at most; -1 sets no limit")
              .at_least(1)
              .or_minus_one(),
      }};
}

KeyGroup dataset_keys() {
  return {
      "Data",
      {
          text_key("dataset_type", "synthetic",
                   "synthetic; text: files, folders, globs or .jsonl; tokens: .npy or .bin of token ids; batches: a "
                   ".safetensors of whole batches")
              .one_of({"synthetic", "text", "tokens", "batches"})
              .not_yet({"tfds", "hf", "grain", "c4_mlperf", "olmo_grain"}),
          text_key("dataset_path", "",
                   "Training data: a file, folder or glob; or the folder that train_files and eval_files lie in"),
          list_key("train_files", {}, "Files, folders or globs of the training data").ours(),
          list_key("eval_files", {}, "Files, folders or globs of the held-out data").ours(),
          real_key("eval_split_fraction", 0,
                   "Share of the training documents that is held out when eval_files is empty")
              .ours()
              .at_least(0)
              .at_most(0.5),
          list_key("train_data_columns", {"text"}, "Field of .jsonl lines that holds the text"),
          list_key("eval_data_columns", {"text"}, "The same for held-out data"),
          text_key("document_separator", "",
                   "Where documents end in files of plain text: at a line of exactly this text; blank_line: at empty "
                   "lines; empty: only at the end of a file")
              .ours(),
          text_key("dataset_cache_directory", "",
                   "Where tokenised text is kept; empty: <base_output_directory>/dataset_cache")
              .ours(),
          text_key("token_file_dtype", "uint16", "Element type of .bin files of token ids")
              .ours()
              .one_of({"uint16", "uint32"}),
          integer_key("document_separator_id", -1,
                      "Token id that ends a document in files of token ids; -1: a file is one document")
              .ours()
              .at_least(0)
              .or_minus_one(),
          boolean_key("enable_data_shuffling", true, "Shuffle documents by data_shuffle_seed in every epoch"),
          integer_key("data_shuffle_seed", 0, "Seed of the shuffle").at_least(0),
          integer_key("num_epoch", 1, "Passes over the data; the run stops when they are over").at_least(1),
      }};
}

KeyGroup tokenizer_keys() {
  return {
      "Tokenizer",
      {
          text_key("tokenizer_path", "",
                   "Tokenizer: a sentencepiece .model, a tokenizer.json, or the directory with either"),
          text_key("tokenizer_type", "sentencepiece",
                   "Kind of the tokenizer. Left out, a tokenizer.json is recognised, too, and goes first; given, it is "
                   "this kind that is read")
              .one_of({"sentencepiece", "huggingface", "bytes"})
              .not_yet({"tiktoken"}),
          boolean_key("add_bos", true, "Begin each document with the beginning-of-sequence token"),
          boolean_key("add_eos", true, "End each document with the end-of-sequence token"),
      }};
}

}  // namespace

std::vector<KeyGroup> data_keys() { return {batch_keys(), dataset_keys(), tokenizer_keys()}; }

}  // namespace maxtext
