// Text from prompts: tokens to text as they come, and stop strings.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "inference/generator.h"
#include "tokenizer/tokenizer.h"

namespace maxtext {

struct TextRequest {
  std::vector<std::int32_t> prompt;
  std::int64_t max_new_tokens = 0;
  SamplingOptions sampling;
  std::uint64_t seed = 0;
  std::set<std::int32_t> stop_ids;
  /// The answer ends before the first of them.
  std::vector<std::string> stop_strings;
};

struct TextAnswer {
  /// What continues the prompt's text, a leading space included; without stop ids' text and stop strings.
  std::string text;
  /// MaxText's: the same of the ids as if nothing came before them, where tokenizers may drop a leading space.
  std::string text_alone;
  std::vector<std::int32_t> ids;  ///< all that were generated, the stop id too
  FinishReason finish_reason = FinishReason::none;
};

struct TextListener {
  /// A piece of an answer's text as soon as it is certain: whole characters, never a part of a stop string.
  std::function<void(std::size_t request, const std::string& piece)> text;
  std::function<void(std::size_t request, FinishReason reason)> finished;
  std::function<bool()> cancel;
};

struct TextOutcome {
  std::vector<TextAnswer> answers;  ///< one per request, in their order
  GenerationTimes times;
};

TextOutcome generate_text(SlotModel& model, const Tokenizer& tokenizer, const std::vector<TextRequest>& requests,
                          const TextListener& listener = {});

}  // namespace maxtext
