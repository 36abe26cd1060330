// Cross-entropy where devices hold parts of the vocabulary (Megatron's "vocab parallel cross entropy"), as ops between
// which an engine runs collectives: the logits of a part, their statistics, an all_gather of these, the loss. Put
// together in model/parallel_cross_entropy.h; formulas are those of LinearCrossEntropy.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/op_types.h"

namespace maxtext {

/// (logits [N, V], targets int32 [N], first_row int32 []) -> [3, N] in the dtype of logits: the maximum over V,
/// Σ exp(logit − maximum), and the target's logit, 0 for a target outside the part's rows [first_row, first_row + V).
/// A part whose logits are all −∞, or that is empty, has the maximum −∞ and the sum 0. NaN are found in the sum.
struct LogitStatistics {
  static constexpr std::string_view name = "logit_statistics";
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

/// Inputs: statistics [P, 3, N] of P parts, targets int32 [N], target_weights float32 [N], and with `with_gradient`
/// also logits [N, V] (of one part, behind the softcap; donated), inverse_denominator float32 [] and first_row int32
/// []. Outputs: sums float64 [2] and nll float32 [N] as LinearCrossEntropy defines them, and with `with_gradient`
/// dlogits [N, V] in the place of logits: the gradient with respect to the logits before the softcap. Parts are merged
/// in ascending order, so that devices with the same statistics get the same bits. Tokens of weight 0 give nll 0 and
/// zero rows of dlogits; their logits and statistics may hold NaN, their targets anything. Other targets are within [0,
/// vocabulary).
struct CrossEntropyFromStatistics {
  static constexpr std::string_view name = "cross_entropy_from_statistics";
  std::int64_t vocabulary = 0;  ///< of all parts
  double z_loss_multiplier = 0;
  double softcap = 0;  ///< 0: none
  bool with_gradient = true;
  std::vector<OutputSpec> infer(InputSpecs inputs) const;
};

}  // namespace maxtext
