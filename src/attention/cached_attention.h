// Attention over a KV cache: a pass appends its keys and values and its queries see all that is there. A few tokens per
// sequence (decoding) read the cache at memory speed by split-K; a prompt's chunk goes through the tile kernels of
// training, head by head, so that reading a prompt computes what a training forward would.
//
// The design (and MaxText) keeps a prefill cache and an autoregressive one and merges their states. Here one cache
// holds both: positions are contiguous, so nothing has to be merged on one device, and the split-K kernel merges its
// own parts.
#pragma once

#include <cstdint>
#include <functional>

#include "attention/layer_attention.h"

namespace maxtext {

/// Keys and values of one layer, of B sequences.
struct LayerCache {
  Tensor keys;          ///< [B, kv_heads, capacity, D] in the cache's dtype
  Tensor values;        ///< likewise
  Tensor key_scales;    ///< float32 [B, kv_heads, capacity], only with int8
  Tensor value_scales;  ///< likewise
  /// Of a layer with a sliding window: position p lies in slot p mod capacity. Else in slot p.
  bool ring = false;
  std::int64_t window = 0;  ///< keys that a query sees at most, its own included; 0: all
  /// Devices along the context axis that share the positions, page by page; 1: this device has all.
  int group_size = 1;

  std::int64_t capacity() const { return keys.dim(2); }
  /// Sequence b of the batch: views of the same memory.
  LayerCache sequence(std::int64_t b) const;
};

/// The arrays of a decode step of B sequences with one new token each.
struct DecodeStep {
  Tensor position;    ///< int32 [B]: where the token's key goes on this device; negative: nowhere
  Tensor start_idx;   ///< int32 [B]: the first position that is seen
  Tensor kv_seq_len;  ///< int32 [B]: positions on this device with the new one; 0 for a sequence that has ended
  bool batch_invariant = false;
};

/// The arrays of a chunk of T tokens of one sequence.
struct PrefillStep {
  Tensor position;   ///< int32 [1]: where the first token's key goes on this device; negative: none is kept
  Tensor rows;       ///< int32 [1]: how many of the T tokens are kept (the last chunk is padded)
  Tensor slots;      ///< int32 [1, N]: key j in original order -> where it lies (below)
  Tensor key_begin;  ///< int32 [1, T]: a query sees keys key_begin <= j < key_end
  Tensor key_end;    ///< int32 [1, T]
  double area = 0;   ///< visible pairs of one head: counts FLOPs only
};

/// One layer's pass over the cache. A decode step reads the cache after its tokens were appended. A chunk of a prompt
/// does so, too, where N = PrefillStep::slots' length is the number of slots that are read from the front of the cache;
/// in a ring, whose old keys the chunk overwrites, it reads the ring as it was followed by its own keys: N = capacity +
/// T.
class CachedAttention final : public LayerAttention {
 public:
  /// The cache that is worked on, asked for in each run: what is recorded once may be run for many layers.
  using FindCache = std::function<LayerCache&()>;

  /// What is found, and `step`, have to live as long as the graph in which it is recorded.
  CachedAttention(FindCache find_cache, const DecodeStep& step) : find_cache_(std::move(find_cache)), decode_(&step) {}
  CachedAttention(LayerCache& cache, const PrefillStep& step)
      : find_cache_([&cache]() -> LayerCache& { return cache; }), prefill_(&step) {}

  void begin(Variable k, Variable v) override;
  Variable attend(Variable q, const AttentionScores& scores) override;

 private:
  FindCache find_cache_;
  const DecodeStep* decode_ = nullptr;
  const PrefillStep* prefill_ = nullptr;
  Variable k_;
  Variable v_;
};

}  // namespace maxtext
