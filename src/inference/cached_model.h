// A model that generates: the decoder's layers over a KV cache, on one device (or, with the cache's positions shared,
// on each of several that run the same program).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "config/model_shape.h"
#include "inference/generator.h"
#include "inference/inference_weights.h"
#include "inference/kv_cache.h"
#include "inference/recorded_layers.h"
#include "model/family.h"

namespace maxtext {

struct CachedModelOptions {
  CacheOptions cache;
  /// Tokens of a prompt that are read at a time, at most: it is the cache's page, so that a chunk has one owner, and
  /// with several devices that may be less (page_size).
  std::int64_t prefill_chunk = 512;
  bool batch_invariant = false;
};

/// The cache that a model of these options has on each of `devices` that share it: `cache` with its page.
CacheOptions paged_cache(const CachedModelOptions& options, int devices);

class CachedModel final : public SlotModel {
 public:
  /// The engine and the weights must outlive it.
  CachedModel(Engine& engine, const ModelShape& shape, const InferenceWeights& weights,
              const CachedModelOptions& options);
  CachedModel(const CachedModel&) = delete;  // decode_layers_ refers to its members
  CachedModel& operator=(const CachedModel&) = delete;

  int slots() const override { return static_cast<int>(cache_.options().sequences); }
  std::int64_t max_length() const override { return cache_.options().max_length; }
  std::vector<float> prefill(int slot, std::span<const std::int32_t> ids, const Cancel& cancel) override;
  std::vector<std::vector<float>> step(std::span<const int> slots, std::span<const std::int32_t> ids) override;

  /// As prefill, with the logits of every position: visit(position of the first row, logits [rows, vocab_size]) for
  /// each chunk.
  using LogitsVisitor = std::function<void(std::int64_t first, std::span<const float> logits)>;
  void prefill_all(int slot, std::span<const std::int32_t> ids, const LogitsVisitor& visit);

  /// As if the slot had read `length` tokens whose keys and values are all zero: for measuring long contexts without
  /// reading them.
  void pretend_length(int slot, std::int64_t length);
  /// Forgets what the slot has read after its first `length` tokens.
  void shorten(int slot, std::int64_t length);

  std::int64_t length(int slot) const { return lengths_[static_cast<std::size_t>(slot)]; }
  const KeyValueCache& cache() const { return cache_; }

 private:
  /// The hidden states [1, T, E] of a chunk that stands at `first` of sequence `slot`, with padding behind them.
  Tensor prefill_chunk(int slot, std::int64_t first, std::span<const std::int32_t> ids);
  /// Makes room for sequences of `length`.
  void reserve(std::int64_t length);
  /// Where a prompt for `slot` is read: a cache of one sequence, from which store_prompt brings it to the slot.
  std::vector<LayerCache> prompt_layers(int slot) const;
  void store_prompt(int slot);
  /// For how many tokens a chunk of `tokens` is computed.
  std::int64_t padded_chunk(std::int64_t tokens) const;
  /// Of layers with `window`, for a chunk of `tokens` at `first`, padded.
  PrefillStep prefill_step(std::int64_t window, std::int64_t first, std::int64_t tokens);
  /// [1, 1, E] of [1, T, E]
  Tensor hidden_state(const Tensor& hidden, std::int64_t token);
  /// Attention of a layer, made while run_prompt runs it.
  using MakePromptAttention = std::function<std::unique_ptr<LayerAttention>(std::size_t layer)>;
  /// The last layer's output for tokens [1, T] of a prompt.
  Tensor run_prompt(const Tensor& ids, const Tensor& position_ids, const MakePromptAttention& attention);
  /// Logits [B, T, vocab_size] of hidden states.
  std::vector<float> logits(const Tensor& hidden);
  Tensor integers(Shape shape, std::span<const std::int32_t> values);

  Engine& engine_;
  ModelShape shape_;
  ModelShape part_;  ///< of a layer, on this device
  const ModelFamily& family_;
  const InferenceWeights& weights_;
  CachedModelOptions options_;
  KeyValueCache cache_;
  /// Where several slots are served by compiled programs, prompts are read here, and copied: the program that reads one
  /// is the same for every slot.
  std::optional<KeyValueCache> prompt_cache_;
  std::vector<std::int64_t> lengths_;
  // Of the decode step under way: for layers that keep all positions, and for rings.
  DecodeStep full_step_;
  DecodeStep ring_step_;
  RecordedLayers decode_layers_;
};

}  // namespace maxtext
