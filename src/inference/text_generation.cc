#include "inference/text_generation.h"

#include <algorithm>
#include <utility>

#include "tokenizer/stop_strings.h"
#include "tokenizer/stream_decoder.h"

namespace maxtext {
namespace {

/// The text of one answer as its tokens come, as what continues the prompt.
class AnswerText {
 public:
  AnswerText(const Tokenizer& tokenizer, const TextRequest& request)
      : decoder_(tokenizer), alone_(tokenizer), stops_(request.stop_strings), stop_ids_(request.stop_ids) {
    decoder_.begin_after(request.prompt);
  }

  /// The piece that is certain after `id`.
  std::string push(std::int32_t id) {
    if (stop_ids_.contains(id)) return {};
    text_alone_ += alone_.push(id);
    return keep(stops_.push(counted(decoder_.push(id))));
  }
  std::string flush() {
    text_alone_ += alone_.flush();
    std::string piece = stops_.push(counted(decoder_.flush()));
    piece += stops_.flush();
    return keep(std::move(piece));
  }
  bool stopped() const { return stops_.stopped(); }
  const std::string& text() const { return text_; }

  /// After the flush: the text of the ids alone, without as much of its end as the stop string took.
  std::string text_alone() const {
    const std::size_t cut = std::min(decoded_ - text_.size(), text_alone_.size());
    return text_alone_.substr(0, text_alone_.size() - cut);
  }

 private:
  std::string counted(std::string piece) {
    decoded_ += piece.size();
    return piece;
  }
  std::string keep(std::string piece) {
    text_ += piece;
    return piece;
  }

  StreamDecoder decoder_;
  StreamDecoder alone_;
  StopStrings stops_;
  const std::set<std::int32_t>& stop_ids_;
  std::string text_;
  std::string text_alone_;
  std::size_t decoded_ = 0;  // bytes of the text before a stop string cut it
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
    outcome.answers.push_back({texts[i].text(), texts[i].text_alone(), std::move(generation.ids),
                               stopped ? FinishReason::stop : generation.finish_reason});
  }
  return outcome;
}

}  // namespace maxtext
