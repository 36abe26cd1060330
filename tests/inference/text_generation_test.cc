// Text of answers: what continues the prompt, what the ids are alone, and where a stop string ends both.
#include "inference/text_generation.h"

#include <gtest/gtest.h>

#include "testing/fixtures.h"

namespace maxtext {
namespace {

/// Answers every prompt with the same tokens.
class Parrot final : public SlotModel {
 public:
  Parrot(const Tokenizer& tokenizer, const std::vector<std::string>& answer) : vocab_size_(tokenizer.vocab_size()) {
    for (const std::string& token : answer) answer_.push_back(tokenizer.token_to_id(token).value());
  }
  int slots() const override { return 1; }
  std::int64_t max_length() const override { return 100; }
  std::vector<float> prefill(int /*slot*/, std::span<const std::int32_t> /*ids*/, const Cancel& /*cancel*/) override {
    said_ = 0;
    return next();
  }
  std::vector<std::vector<float>> step(std::span<const int> /*slots*/, std::span<const std::int32_t> /*ids*/) override {
    return {next()};
  }

 private:
  std::vector<float> next() {
    std::vector<float> logits(static_cast<std::size_t>(vocab_size_), 0.0F);
    logits[static_cast<std::size_t>(answer_.at(said_++))] = 1;
    return logits;
  }

  std::int32_t vocab_size_;
  std::vector<std::int32_t> answer_;
  std::size_t said_ = 0;
};

struct Spoken {
  TextAnswer answer;
  std::string streamed;
};

Spoken answer_to(const std::string& prompt, const std::vector<std::string>& tokens,
                 const std::vector<std::string>& stop_strings = {}) {
  const auto tokenizer = open_tokenizer(testing::fixture_root() / "tokenizers/llama2", "huggingface");
  Parrot model(*tokenizer, tokens);
  TextRequest request;
  request.prompt = tokenizer->encode(prompt, {.add_special_tokens = true});
  request.max_new_tokens = static_cast<std::int64_t>(tokens.size());
  request.stop_ids = {*tokenizer->eos_id()};
  request.stop_strings = stop_strings;
  Spoken result;
  TextListener listener;
  listener.text = [&](std::size_t, const std::string& piece) { result.streamed += piece; };
  result.answer = generate_text(model, *tokenizer, {request}, listener).answers.at(0);
  return result;
}

void expect_answer(const Spoken& spoken, const std::string& text, const std::string& text_alone, FinishReason reason) {
  EXPECT_EQ(spoken.answer.text, text);
  EXPECT_EQ(spoken.answer.text_alone, text_alone);
  EXPECT_EQ(spoken.streamed, text);
  EXPECT_EQ(spoken.answer.finish_reason, reason);
}

TEST(TextGeneration, TheTextContinuesThePromptAndItsSpaceIsPartOfIt) {
  expect_answer(answer_to("Hi there", {"▁str", "angers", "▁K"}), " strangers K", "strangers K", FinishReason::length);
  expect_answer(answer_to("Hi the", {"re", "▁K", "</s>"}), "re K", "re K", FinishReason::stop);
  expect_answer(answer_to("Hi", {"</s>", "▁K"}), "", "", FinishReason::stop);
}

TEST(TextGeneration, CharactersOfBytesComeWholeAfterOthers) {
  const std::vector<std::string> smile = {"<0xF0>", "<0x9F>", "<0x98>", "<0x80>"};
  expect_answer(answer_to("😀😀", smile), "😀", "😀", FinishReason::length);
  expect_answer(answer_to("Hi", {"▁", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>"}), " 😀", "😀", FinishReason::length);
}

TEST(TextGeneration, AStopStringMayBeginWithTheSpaceThatTheAnswerBeginsWith) {
  const std::vector<std::string> tokens = {"▁str", "angers", "▁K", "urt"};
  expect_answer(answer_to("Hi there", tokens, {" strangers"}), "", "", FinishReason::stop);
  expect_answer(answer_to("Hi there", tokens, {"strangers"}), " ", "", FinishReason::stop);
  expect_answer(answer_to("Hi there", tokens, {" K"}), " strangers", "strangers", FinishReason::stop);
  expect_answer(answer_to("Hi there", tokens, {"urt"}), " strangers K", "strangers K", FinishReason::stop);
  expect_answer(answer_to("Hi there", tokens, {"there"}), " strangers Kurt", "strangers Kurt", FinishReason::length);
}

}  // namespace
}  // namespace maxtext
