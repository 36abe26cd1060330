#include "inference/text_generation.h"

#include <utility>

#include "tokenizer/stop_strings.h"
#include "tokenizer/stream_decoder.h"

namespace maxtext {
namespace {

/// The text of one answer as its tokens come.
class AnswerText {
 public:
  AnswerText(const Tokenizer& tokenizer, const TextRequest& request)
      : decoder_(tokenizer), stops_(request.stop_strings), stop_ids_(request.stop_ids) {}

  /// The piece that is certain after `id`.
  std::string push(std::int32_t id) {
    if (stop_ids_.contains(id)) return {};
    return keep(stops_.push(decoder_.push(id)));
  }
  std::string flush() {
    std::string piece = stops_.push(decoder_.flush());
    piece += stops_.flush();
    return keep(std::move(piece));
  }
  bool stopped() const { return stops_.stopped(); }
  const std::string& text() const { return text_; }

 private:
  std::string keep(std::string piece) {
    text_ += piece;
    return piece;
  }

  StreamDecoder decoder_;
  StopStrings stops_;
  const std::set<std::int32_t>& stop_ids_;
  std::string text_;
};

}  // namespace

TextOutcome generate_text(SlotModel& model, const Tokenizer& tokenizer, const std::vector<TextRequest>& requests,
                          const TextListener& listener) {
  std::vector<GenerationRequest> token_requests;
  std::vector<AnswerText> texts;
  for (const TextRequest& request : requests) {
    token_requests.push_back(
        {request.prompt, request.max_new_tokens, request.sampling, request.seed, request.stop_ids});
    texts.emplace_back(tokenizer, request);
  }
  const auto say = [&](std::size_t request, const std::string& piece) {
    if (listener.text && !piece.empty()) listener.text(request, piece);
  };
  GenerationListener tokens;
  tokens.token = [&](std::size_t request, std::int32_t id) {
    say(request, texts[request].push(id));
    return !texts[request].stopped();
  };
  tokens.finished = [&](std::size_t request, FinishReason reason) {
    say(request, texts[request].flush());
    if (listener.finished) listener.finished(request, reason);
  };
  tokens.cancel = listener.cancel;

  GenerationOutcome generated = generate(model, token_requests, tokens);
  TextOutcome outcome{.answers = {}, .times = generated.times};
  for (std::size_t i = 0; i < requests.size(); ++i) {
    // The end of a text may complete a stop string that its last token only began.
    Generation& generation = generated.generations[i];
    const bool stopped = texts[i].stopped() && generation.finish_reason == FinishReason::length;
    outcome.answers.push_back(
        {texts[i].text(), std::move(generation.ids), stopped ? FinishReason::stop : generation.finish_reason});
  }
  return outcome;
}

}  // namespace maxtext
