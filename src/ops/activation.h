// Gated activations of the feed-forward block.
#pragma once

#include <string_view>
#include <vector>

#include "ops/op_types.h"

namespace maxtext {

enum class Activation { silu, gelu_tanh };

/// (gate, up) of one shape -> act(gate) · up. silu(x) = x·sigmoid(x);
/// gelu_tanh(x) = x/2·(1 + tanh(sqrt(2/π)·(x + 0.044715·x³))).
struct GatedActivation {
  static constexpr std::string_view name = "gated_activation";
  Activation activation = Activation::silu;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// (dy, gate, up) -> (dgate = dy·up·act'(gate), dup = dy·act(gate)). With `in_place` they take the memory of gate and
/// up.
struct GatedActivationBackward {
  static constexpr std::string_view name = "gated_activation_backward";
  Activation activation = Activation::silu;
  bool in_place = false;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

}  // namespace maxtext
