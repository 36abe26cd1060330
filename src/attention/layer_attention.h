// The place where a layer's queries meet keys and values: a strategy of context parallelism in training, the cache in
// generation. Model code is the same for all.
#pragma once

#include "autodiff/graph.h"

namespace maxtext {

/// What turns q·k into a score: softcap · tanh(scale · q·k / softcap), or scale · q·k where softcap is 0.
struct AttentionScores {
  double scale = 1;
  double softcap = 0;
};

/// One layer's attention in one pass. `begin` is called once, then `attend` once.
class LayerAttention {
 public:
  virtual ~LayerAttention() = default;

  /// The layer's own keys and values, [B, T, kv_heads, D], rotated. Called before the queries are projected, so that
  /// what has to travel does so meanwhile.
  virtual void begin(Variable k, Variable v) = 0;

  /// q [B, T, query_heads, D] -> o [B, T, query_heads, D], named `context` for rematerialisation policies.
  virtual Variable attend(Variable q, const AttentionScores& scores) = 0;
};

}  // namespace maxtext
