#include "tokenizer/sentencepiece_trainer.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <exception>
#include <unordered_map>

#include "base/durable_file.h"
#include "base/error.h"
#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

// The library drops longer sentences silently.
constexpr std::size_t kMaxSentenceBytes = 4096;

/// Feeds the trainer, cutting long lines at spaces. An exception of the source ends the iteration and is kept, because
/// it must not pass through the library.
class LineIterator final : public sentencepiece::SentenceIterator {
 public:
  explicit LineIterator(const LineSource& lines) : lines_(lines) { Next(); }

  bool done() const override { return done_; }
  const std::string& value() const override { return sentence_; }
  sentencepiece::util::Status status() const override { return {}; }
  const std::exception_ptr& error() const { return error_; }
  std::int64_t count() const { return count_; }

  void Next() override {
    while (rest_.empty() && !done_) fetch();
    if (done_) return;
    std::size_t cut = rest_.size();
    if (cut > kMaxSentenceBytes) {
      cut = rest_.rfind(' ', kMaxSentenceBytes);
      if (cut == std::string::npos || cut == 0) cut = utf8_boundary(rest_, kMaxSentenceBytes);
    }
    sentence_ = rest_.substr(0, cut);
    rest_.erase(0, cut);
    ++count_;
  }

 private:
  void fetch() {
    try {
      done_ = !lines_(rest_);
    } catch (...) {
      error_ = std::current_exception();
      done_ = true;
    }
  }

  const LineSource& lines_;
  std::string rest_;
  std::string sentence_;
  std::exception_ptr error_;
  std::int64_t count_ = 0;
  bool done_ = false;
};

void check(const SentencepieceTrainingOptions& options) {
  if (options.model_prefix.empty()) fail_config("output: expected a path prefix for the model, got nothing");
  if (options.model_type != "bpe" && options.model_type != "unigram") {
    fail_config("model_type: expected bpe or unigram, got '{}'", options.model_type);
  }
  const std::int32_t smallest = options.byte_fallback ? 3 + 256 + 1 : 3 + 1;
  if (options.vocab_size < smallest) {
    fail_config("vocab_size: expected at least {} (special tokens{} and a piece), got {}", smallest,
                options.byte_fallback ? ", 256 bytes" : "", options.vocab_size);
  }
  if (!(options.character_coverage > 0 && options.character_coverage <= 1)) {
    fail_config("character_coverage: expected a share in (0, 1], got {}", options.character_coverage);
  }
  if (options.sample_lines < 0) fail_config("sample_lines: expected 0 or more, got {}", options.sample_lines);
}

std::unordered_map<std::string, std::string> library_options(const SentencepieceTrainingOptions& options) {
  const auto text = [](bool value) { return std::string(value ? "true" : "false"); };
  return {
      {"model_type", options.model_type},
      {"vocab_size", std::to_string(options.vocab_size)},
      {"character_coverage", fmt::format("{}", options.character_coverage)},
      {"byte_fallback", text(options.byte_fallback)},
      {"split_digits", text(options.split_digits)},
      {"input_sentence_size", std::to_string(options.sample_lines)},
      {"shuffle_input_sentence", text(options.sample_lines > 0)},
      {"max_sentence_length", std::to_string(kMaxSentenceBytes + 4)},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      // The unigram trainer sums in one part per thread, so a number taken from the machine would change the model.
      {"num_threads", "4"},
      {"minloglevel", "2"},
  };
}

/// The library's message without its source line and expression: "file.cc(123) [expression] message".
std::string reason(const sentencepiece::util::Status& status) {
  const std::string message = status.error_message();
  const std::size_t bracket = message.find("] ");
  return bracket == std::string::npos ? message : message.substr(bracket + 2);
}

std::string vocabulary_text(const std::string& model) {
  sentencepiece::SentencePieceProcessor processor;
  if (!processor.LoadFromSerializedProto(model).ok()) fail("sentencepiece made a model that it cannot load");
  std::string text;
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    text += fmt::format("{}\t{}\n", processor.IdToPiece(id), processor.GetScore(id));
  }
  return text;
}

}  // namespace

void train_sentencepiece(const SentencepieceTrainingOptions& options, const LineSource& lines) {
  check(options);
  LineIterator iterator(lines);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(library_options(options), &iterator, &model);
  if (iterator.error()) std::rethrow_exception(iterator.error());
  if (iterator.count() == 0) fail_config("the training text of the tokenizer is empty");
  if (!status.ok()) {
    fail_config("vocab_size {}: sentencepiece cannot train a {} model on this text: {}", options.vocab_size,
                options.model_type, reason(status));
  }
  const std::string prefix = options.model_prefix.string();
  write_file_atomically(prefix + ".vocab", vocabulary_text(model));
  write_file_atomically(prefix + ".model", model);
}

}  // namespace maxtext
