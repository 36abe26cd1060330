// The output projection fused with cross-entropy: logits exist for one chunk of tokens at a time.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/op_types.h"

namespace maxtext {

/// Tokens whose logits, for `vocabulary` rows of the head, exist at a time: `wanted`, or fewer, so that the logits of
/// `alive` chunks stay within 256 MiB together, unless that would take less than 256 tokens in all.
std::int64_t cross_entropy_chunk_tokens(std::int64_t wanted, std::int64_t vocabulary, std::int64_t element_bytes,
                                        std::int64_t alive = 1);

/// Inputs: hidden [..., E], weight [V, E], targets int32 [...], target_weights float32 [...],
/// inverse_denominator float32 [] (1 / Σ of target weights over all devices and micro-batches),
/// and with `with_gradient` also destination [V, E].
/// With logits = hidden · weightᵀ (with `softcap`: softcap · tanh(hidden · weightᵀ / softcap), as in Gemma 2),
/// lse = logsumexp(logits), w = target weight:
///   nll = lse − logits[target], z = z_loss_multiplier · lse²
/// Outputs: sums float64 [2] = (Σ w·nll, Σ w·z); nll float32 [...] (0 where w = 0);
/// and with `with_gradient` the gradient of (Σ w·(nll + z)) · inverse_denominator:
/// dhidden [..., E] and destination += dweight (added when `accumulate`, else stored).
/// Tokens of weight 0 cost nothing but their place in a chunk, and their hidden state may hold NaN.
/// Extra memory is chunk_tokens · V floats, twice at most. Chunks below about 1024 tokens slow the GEMMs.
struct LinearCrossEntropy {
  static constexpr std::string_view name = "linear_cross_entropy";
  std::int64_t chunk_tokens = 1024;
  double z_loss_multiplier = 0;
  double softcap = 0;  ///< 0: none
  bool with_gradient = true;
  bool accumulate = true;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
  double flops(InputSpecs inputs) const;
};

}  // namespace maxtext
