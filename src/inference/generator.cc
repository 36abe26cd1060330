#include "inference/generator.h"

#include <chrono>
#include <deque>
#include <optional>

#include "base/error.h"
#include "base/seconds_since.h"

namespace maxtext {
namespace {

using Clock = std::chrono::steady_clock;

class Run {
 public:
  Run(SlotModel& model, std::span<const GenerationRequest> requests, const GenerationListener& listener)
      : model_(model), requests_(requests), listener_(listener), slots_(static_cast<std::size_t>(model.slots())) {
    outcome_.generations.resize(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      check(i);
      waiting_.push_back(i);
    }
  }

  GenerationOutcome run() {
    while (!cancelled() && (fill_slots() || busy())) {
      if (busy() && !cancelled_) step();
    }
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (outcome_.generations[i].finish_reason == FinishReason::none) finish(i, FinishReason::cancelled);
    }
    return std::move(outcome_);
  }

 private:
  void check(std::size_t index) const {
    const auto length = static_cast<std::int64_t>(requests_[index].prompt.size());
    if (length == 0) fail("request {}: the prompt has no tokens", index);
    if (length >= model_.max_length()) {
      fail("request {}: the prompt has {} tokens and a sequence at most {}: there is no room for an answer", index,
           length, model_.max_length());
    }
  }

  bool cancelled() {
    cancelled_ = cancelled_ || (listener_.cancel && listener_.cancel());
    return cancelled_;
  }

  bool busy() const {
    for (const std::optional<std::size_t>& slot : slots_) {
      if (slot) return true;
    }
    return false;
  }

  /// Gives waiting requests to free slots; true when there was one.
  bool fill_slots() {
    bool filled = false;
    for (std::size_t slot = 0; slot < slots_.size() && !waiting_.empty() && !cancelled_; ++slot) {
      if (slots_[slot]) continue;
      const std::size_t request = waiting_.front();
      waiting_.pop_front();
      slots_[slot] = request;
      prefill(slot, request);
      filled = true;
    }
    return filled;
  }

  void prefill(std::size_t slot, std::size_t request) {
    const Clock::time_point start = Clock::now();
    const std::vector<std::int32_t>& prompt = requests_[request].prompt;
    const std::vector<float> logits = model_.prefill(static_cast<int>(slot), prompt, [this] { return cancelled(); });
    if (cancelled_) return;
    outcome_.times.prefill_seconds += seconds_since(start);
    outcome_.times.prefill_tokens += static_cast<std::int64_t>(prompt.size());
    take(slot, logits);
  }

  void step() {
    std::vector<int> slots;
    std::vector<std::int32_t> ids;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      if (!slots_[slot]) continue;
      slots.push_back(static_cast<int>(slot));
      ids.push_back(outcome_.generations[*slots_[slot]].ids.back());
    }
    const Clock::time_point start = Clock::now();
    const std::vector<std::vector<float>> logits = model_.step(slots, ids);
    outcome_.times.decode_seconds += seconds_since(start);
    outcome_.times.decode_tokens += static_cast<std::int64_t>(ids.size());
    ++outcome_.times.decode_steps;
    for (std::size_t i = 0; i < slots.size(); ++i) take(static_cast<std::size_t>(slots[i]), logits[i]);
  }

  /// The next token of the request in `slot`, from the logits.
  void take(std::size_t slot, std::span<const float> logits) {
    const std::size_t index = *slots_[slot];
    const GenerationRequest& request = requests_[index];
    std::vector<std::int32_t>& ids = outcome_.generations[index].ids;
    FinishReason reason = FinishReason::none;
    if (request.max_new_tokens > 0) {
      const std::int32_t id = next_token(index, logits);
      ids.push_back(id);
      const auto generated = static_cast<std::int64_t>(ids.size());
      const std::int64_t length = static_cast<std::int64_t>(request.prompt.size()) + generated;
      const bool go_on = !listener_.token || listener_.token(index, id);
      if (first_) outcome_.times.first_token_seconds = seconds_since(start_);
      first_ = false;
      if (request.stop_ids.contains(id) || !go_on) {
        reason = FinishReason::stop;
      } else if (generated >= request.max_new_tokens || length >= model_.max_length()) {
        reason = FinishReason::length;
      }
    } else {
      reason = FinishReason::length;
    }
    if (reason == FinishReason::none) return;
    slots_[slot].reset();
    finish(index, reason);
  }

  std::int32_t next_token(std::size_t index, std::span<const float> logits) const {
    const GenerationRequest& request = requests_[index];
    const std::vector<std::int32_t>& ids = outcome_.generations[index].ids;
    std::vector<std::int32_t> previous;
    if (request.sampling.repetition_penalty != 1) {
      previous = request.prompt;
      previous.insert(previous.end(), ids.begin(), ids.end());
    }
    return sample_token(logits, previous, request.sampling, request_uniform(request.seed, index, ids.size()));
  }

  void finish(std::size_t request, FinishReason reason) {
    outcome_.generations[request].finish_reason = reason;
    if (listener_.finished) listener_.finished(request, reason);
  }

  SlotModel& model_;
  std::span<const GenerationRequest> requests_;
  const GenerationListener& listener_;
  std::vector<std::optional<std::size_t>> slots_;  ///< the request in each
  std::deque<std::size_t> waiting_;
  GenerationOutcome outcome_;
  Clock::time_point start_ = Clock::now();
  bool first_ = true;
  bool cancelled_ = false;
};

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::none:
      return "none";
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
  }
  return "unknown";
}

GenerationOutcome generate(SlotModel& model, std::span<const GenerationRequest> requests,
                           const GenerationListener& listener) {
  return Run(model, requests, listener).run();
}

}  // namespace maxtext
