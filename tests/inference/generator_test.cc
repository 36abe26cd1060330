// The loop over requests and slots, with a model whose next token is a function of the whole sequence.
#include "inference/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"

namespace maxtext {
namespace {

constexpr std::int32_t kVocabulary = 50;

/// The next token is a hash of everything in the slot.
class HashModel final : public SlotModel {
 public:
  HashModel(int slots, std::int64_t max_length) : sequences_(static_cast<std::size_t>(slots)), max_(max_length) {}
  int slots() const override { return static_cast<int>(sequences_.size()); }
  std::int64_t max_length() const override { return max_; }
  std::vector<float> prefill(int slot, std::span<const std::int32_t> ids, const Cancel& /*cancel*/) override {
    auto& sequence = sequences_.at(static_cast<std::size_t>(slot));
    sequence.assign(ids.begin(), ids.end());
    ++prefills;
    return logits(sequence);
  }
  std::vector<std::vector<float>> step(std::span<const int> slots, std::span<const std::int32_t> ids) override {
    std::vector<std::vector<float>> result;
    widest = std::max(widest, slots.size());
    for (std::size_t i = 0; i < slots.size(); ++i) {
      auto& sequence = sequences_.at(static_cast<std::size_t>(slots[i]));
      sequence.push_back(ids[i]);
      EXPECT_LE(static_cast<std::int64_t>(sequence.size()), max_);
      result.push_back(logits(sequence));
    }
    return result;
  }
  static std::int32_t next(const std::vector<std::int32_t>& sequence) {
    std::uint32_t hash = 17;
    for (const std::int32_t id : sequence) hash = hash * 31 + static_cast<std::uint32_t>(id);
    return static_cast<std::int32_t>(hash % kVocabulary);
  }

  int prefills = 0;
  std::size_t widest = 0;

 private:
  static std::vector<float> logits(const std::vector<std::int32_t>& sequence) {
    std::vector<float> values(kVocabulary, 0.0F);
    values[static_cast<std::size_t>(next(sequence))] = 3;
    return values;
  }
  std::vector<std::vector<std::int32_t>> sequences_;
  std::int64_t max_;
};

std::vector<std::int32_t> expected_answer(std::vector<std::int32_t> sequence, std::int64_t tokens) {
  std::vector<std::int32_t> answer;
  for (std::int64_t i = 0; i < tokens; ++i) {
    answer.push_back(HashModel::next(sequence));
    sequence.push_back(answer.back());
  }
  return answer;
}

std::vector<GenerationRequest> uneven_requests() {
  std::vector<GenerationRequest> requests;
  for (std::int32_t i = 0; i < 7; ++i) {
    GenerationRequest request;
    for (std::int32_t k = 0; k <= i * 2; ++k) request.prompt.push_back(k * 3 + i);
    request.max_new_tokens = 3 + (i * 5) % 7;
    requests.push_back(request);
  }
  return requests;
}

TEST(Generator, EachRequestGetsItsOwnAnswerForAnyNumberOfSlots) {
  const std::vector<GenerationRequest> requests = uneven_requests();
  for (const int slots : {1, 2, 3, 8}) {
    HashModel model(slots, 64);
    const GenerationOutcome outcome = generate(model, requests);
    ASSERT_EQ(outcome.generations.size(), requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(outcome.generations[i].ids, expected_answer(requests[i].prompt, requests[i].max_new_tokens)) << i;
      EXPECT_EQ(outcome.generations[i].finish_reason, FinishReason::length);
    }
    EXPECT_EQ(model.prefills, 7);
    EXPECT_EQ(model.widest, static_cast<std::size_t>(std::min(slots, 7)));
  }
}

TEST(Generator, SampledAnswersDoNotDependOnTheSlots) {
  std::vector<GenerationRequest> requests = uneven_requests();
  for (GenerationRequest& request : requests) {
    request.sampling = {.greedy = false, .temperature = 2};
    request.seed = 11;
  }
  HashModel one(1, 64);
  HashModel many(4, 64);
  const GenerationOutcome a = generate(one, requests);
  const GenerationOutcome b = generate(many, requests);
  for (std::size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(a.generations[i].ids, b.generations[i].ids) << i;
  for (GenerationRequest& request : requests) request.seed = 12;
  const GenerationOutcome c = generate(many, requests);
  int equal = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) equal += a.generations[i].ids == c.generations[i].ids ? 1 : 0;
  EXPECT_LT(equal, 7);
}

TEST(Generator, AStopIdEndsTheAnswerAndIsItsLast) {
  std::vector<GenerationRequest> requests = uneven_requests();
  const std::vector<std::int32_t> whole = expected_answer(requests[3].prompt, requests[3].max_new_tokens);
  requests[3].stop_ids = {whole[1], 1000};
  HashModel model(2, 64);
  const Generation generation = generate(model, requests).generations[3];
  const auto end = std::ranges::find(whole, whole[1]) + 1;
  EXPECT_EQ(generation.ids, std::vector<std::int32_t>(whole.begin(), end));
  EXPECT_EQ(generation.finish_reason, FinishReason::stop);
}

TEST(Generator, AFullSlotEndsWithLength) {
  GenerationRequest request;
  request.prompt = {1, 2, 3};
  request.max_new_tokens = 100;
  HashModel model(1, 8);
  const Generation generation = generate(model, std::vector<GenerationRequest>{request}).generations[0];
  EXPECT_EQ(generation.ids.size(), 5U);
  EXPECT_EQ(generation.finish_reason, FinishReason::length);
}

TEST(Generator, TheListenerSeesEveryTokenAndMayEndARequest) {
  const std::vector<GenerationRequest> requests = uneven_requests();
  HashModel model(3, 64);
  std::map<std::size_t, std::vector<std::int32_t>> seen;
  std::map<std::size_t, FinishReason> ends;
  GenerationListener listener;
  listener.token = [&](std::size_t request, std::int32_t id) {
    seen[request].push_back(id);
    return request != 5 || seen[request].size() < 2;
  };
  listener.finished = [&](std::size_t request, FinishReason reason) { ends[request] = reason; };
  const GenerationOutcome outcome = generate(model, requests, listener);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(seen[i], outcome.generations[i].ids);
    EXPECT_EQ(ends[i], outcome.generations[i].finish_reason);
  }
  EXPECT_EQ(seen[5].size(), 2U);
  EXPECT_EQ(ends[5], FinishReason::stop);
}

TEST(Generator, CancellingKeepsWhatIsThere) {
  const std::vector<GenerationRequest> requests = uneven_requests();
  HashModel model(2, 64);
  int tokens = 0;
  GenerationListener listener;
  listener.token = [&](std::size_t, std::int32_t) { return ++tokens > 0; };
  listener.cancel = [&] { return tokens >= 9; };
  const GenerationOutcome outcome = generate(model, requests, listener);
  std::size_t total = 0;
  int cancelled = 0;
  for (const Generation& generation : outcome.generations) {
    total += generation.ids.size();
    cancelled += generation.finish_reason == FinishReason::cancelled ? 1 : 0;
  }
  EXPECT_EQ(total, static_cast<std::size_t>(tokens));
  EXPECT_LE(tokens, 10);
  EXPECT_GE(cancelled, 4);
}

/// A prompt of a hundred thousand tokens takes minutes: nobody waits for the end of it.
TEST(Generator, CancellingWithinAPromptGivesNoAnswerToItAndKeepsTheOthers) {
  class SlowReader final : public SlotModel {
   public:
    int slots() const override { return 2; }
    std::int64_t max_length() const override { return 100; }
    std::vector<float> prefill(int slot, std::span<const std::int32_t> ids, const Cancel& cancel) override {
      for (std::size_t part = 0; part < ids.size(); ++part) {
        if (cancel()) return {};
        ++parts;
      }
      EXPECT_EQ(slot, 0);
      return {0, 1};
    }
    std::vector<std::vector<float>> step(std::span<const int>, std::span<const std::int32_t>) override {
      ADD_FAILURE() << "a step after the end";
      return {};
    }
    int parts = 0;
  };
  SlowReader model;
  std::vector<GenerationRequest> requests(3);
  for (GenerationRequest& request : requests) request = {{1, 2, 3, 4}, 9, {}, 0, {}};
  GenerationListener listener;
  int asked = 0;
  listener.cancel = [&] { return model.parts == 6 && ++asked == 1; };  // only once: what was said stays
  std::map<std::size_t, FinishReason> ends;
  listener.finished = [&](std::size_t request, FinishReason reason) { ends[request] = reason; };
  const GenerationOutcome outcome = generate(model, requests, listener);
  EXPECT_EQ(model.parts, 6) << "four of the first prompt, two of the second";
  EXPECT_EQ(outcome.generations[0].ids, std::vector<std::int32_t>{1});
  EXPECT_TRUE(outcome.generations[1].ids.empty());
  EXPECT_EQ(outcome.times.prefill_tokens, 4);
  for (std::size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(ends[i], FinishReason::cancelled) << i;
}

TEST(Generator, PromptsThatDoNotFitAreErrorsThatNameTheRequest) {
  std::vector<GenerationRequest> requests = uneven_requests();
  HashModel model(1, 13);
  try {
    generate(model, requests);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("request 6: the prompt has 13 tokens"), std::string::npos) << error.what();
  }
  requests[0].prompt.clear();
  EXPECT_THROW(generate(model, requests), Error);
}

TEST(Generator, NoNewTokensGiveAnEmptyAnswer) {
  GenerationRequest request;
  request.prompt = {4};
  HashModel model(1, 13);
  const Generation generation = generate(model, std::vector<GenerationRequest>{request}).generations[0];
  EXPECT_TRUE(generation.ids.empty());
  EXPECT_EQ(generation.finish_reason, FinishReason::length);
}

}  // namespace
}  // namespace maxtext
