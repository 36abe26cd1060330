// Tokens from a model, for any number of requests over a fixed number of slots: a slot that becomes free takes the next
// request, so uneven prompts and uneven answers keep the batch full.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "inference/sampling.h"

namespace maxtext {

/// A model with a cache of what it has read in each slot. Sequences in different slots do not see each other.
class SlotModel {
 public:
  virtual ~SlotModel() = default;
  virtual int slots() const = 0;
  /// The longest sequence that a slot holds.
  virtual std::int64_t max_length() const = 0;
  /// Forgets the slot's sequence, reads `ids` (at least one) and returns the logits [vocab_size] of the next token. A
  /// long prompt is read in parts: before each of them `cancel` is asked unless it is empty, and when it says true the
  /// slot is left empty and there are no logits.
  using Cancel = std::function<bool()>;
  virtual std::vector<float> prefill(int slot, std::span<const std::int32_t> ids, const Cancel& cancel) = 0;
  /// Appends ids[i] to the sequence of slots[i] (distinct) and returns the logits of the next tokens, in that order.
  virtual std::vector<std::vector<float>> step(std::span<const int> slots, std::span<const std::int32_t> ids) = 0;
};

struct GenerationRequest {
  std::vector<std::int32_t> prompt;
  /// Tokens to generate at most; the model's max_length limits prompt and answer together.
  std::int64_t max_new_tokens = 0;
  SamplingOptions sampling;
  std::uint64_t seed = 0;
  /// Ends the answer; the last token of it is one of them.
  std::set<std::int32_t> stop_ids;
};

/// stop: a stop id, or the listener said so; length: max_new_tokens or a full slot; cancelled: `cancel` said so.
enum class FinishReason { none, stop, length, cancelled };
std::string_view finish_reason_name(FinishReason reason);

struct Generation {
  std::vector<std::int32_t> ids;
  FinishReason finish_reason = FinishReason::none;
};

struct GenerationListener {
  /// A token of a request, as soon as it is known; false ends the request there. May be empty.
  std::function<bool(std::size_t request, std::int32_t id)> token;
  /// After the request's last token. May be empty.
  std::function<void(std::size_t request, FinishReason reason)> finished;
  /// Asked before every step and every part of a prompt until it says true, which ends all. May be empty.
  std::function<bool()> cancel;
};

/// How long the two phases took and how many tokens went through them.
struct GenerationTimes {
  double first_token_seconds = 0;  ///< from the call to the first token of the first request
  double prefill_seconds = 0;
  double decode_seconds = 0;
  std::int64_t prefill_tokens = 0;
  std::int64_t decode_tokens = 0;
  std::int64_t decode_steps = 0;
};

struct GenerationOutcome {
  std::vector<Generation> generations;  ///< one per request, in their order
  GenerationTimes times;
};

/// Throws Error naming the request whose prompt is empty or does not leave room for a token. A request's random numbers
/// depend on (seed, number of the request, position) only, so with greedy sampling or the same seed the answer does not
/// depend on what shares the batch, as far as the model's logits do not.
GenerationOutcome generate(SlotModel& model, std::span<const GenerationRequest> requests,
                           const GenerationListener& listener = {});

}  // namespace maxtext
