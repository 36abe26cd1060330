#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/output_file.h"
#include "data/source_files.h"
#include "data/text_lines.h"
#include "tokenizer/sentencepiece_trainer.h"
#include "tokenizer/tokenizer.h"

namespace maxtext {
namespace {

struct Request {
  Arguments inputs;
  TextFormat format;
  SentencepieceTrainingOptions training;
  std::string output;
};

void declare(CommandLine& command_line, Request& request) {
  SentencepieceTrainingOptions& training = request.training;
  command_line.option("inputs", request.inputs, "Text: files, folders, globs or .jsonl", {.required = true});
  command_line.option("--output", request.output, "Prefix of the files written: PREFIX.model and PREFIX.vocab",
                      {.required = true});
  command_line.option("--vocab-size", training.vocab_size, "Number of tokens", {.shows_default = true});
  command_line.option("--model-type", training.model_type, "bpe or unigram", {.shows_default = true});
  command_line.option("--jsonl-field", request.format.jsonl_field, "Field of .jsonl lines that holds the text",
                      {.shows_default = true});
  command_line.option("--character-coverage", training.character_coverage,
                      "Share of the characters that get tokens of their own; the others are spelled in bytes",
                      {.shows_default = true});
  command_line.option("--sample-lines", training.sample_lines, "Train on so many lines taken at random; 0: on all",
                      {.shows_default = true});
}

/// Trains; what is wrong with an option is said under the option's name instead of the library's.
void train(const Request& request, TextLines& lines) {
  try {
    train_sentencepiece(request.training, [&](std::string& line) { return lines.next(line); });
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    const std::size_t end = message.find_first_of(": ");
    for (const std::string_view name : {"output", "model_type", "vocab_size", "character_coverage", "sample_lines"}) {
      if (message.substr(0, end) != name) continue;
      std::string option = "--" + std::string(name);
      std::replace(option.begin(), option.end(), '_', '-');
      fail_config("{}{}", option, message.substr(end));
    }
    throw;
  }
}

}  // namespace

int train_tokenizer_command(const Arguments& arguments) {
  CommandLine command_line("maxtext train-tokenizer", "Train a sentencepiece tokenizer on text.");
  Request request;
  declare(command_line, request);
  if (!command_line.parse(arguments)) return 0;
  const auto files = expand_sources("inputs", request.inputs, {".txt", ".text", ".md", ".jsonl"});
  for (const char* extension : {".model", ".vocab"}) {
    check_is_no_input("--output", request.output + extension, files);
  }
  request.training.model_prefix = request.output;
  const auto folder = request.training.model_prefix.parent_path();
  std::error_code failure;
  if (!folder.empty()) std::filesystem::create_directories(folder, failure);
  if (failure) fail_config("--output {}: cannot create its folder: {}", request.output, failure.message());
  TextLines lines(files, request.format);
  train(request, lines);
  const auto tokenizer = open_tokenizer(request.output + ".model", "sentencepiece");
  spdlog::info("{}.model: {} tokens, trained on {} files", request.output, tokenizer->vocab_size(), files.size());
  return 0;
}

}  // namespace maxtext
