// The output projection and cross-entropy where the vocabulary is cut over kTensorAxes (Megatron's "vocab parallel
// cross entropy"): LinearCrossEntropy as a program of ops and collectives.
#pragma once

#include <vector>

#include "ops/engine.h"

namespace maxtext {

/// `loss`, its inputs and its outputs are those of LinearCrossEntropy (ops/cross_entropy.h), but for these:
/// - every member of the group over kTensorAxes has the same hidden states, targets and weights, and rows
///   [first_row, first_row + V) of the head as `weight` [V, E] and `destination`; the V of all members are equal;
///   first_row is int32 [];
/// - dhidden is this part's share: its sum over kTensorAxes is the gradient;
/// - the inputs `hidden` of tokens of weight 0 may hold NaN, as there, but these tokens cost as much as any other.
/// sums and nll are of the whole vocabulary, the same bits on all members.
/// Per chunk of tokens one all_gather of three numbers per token travels, and nothing else. Extra memory is
/// 2 · chunk_tokens · V floats, or chunk_tokens · V without gradient, within the bound of LinearCrossEntropy.
std::vector<Tensor> vocabulary_parallel_cross_entropy(Engine& engine, const LinearCrossEntropy& loss,
                                                      const std::vector<Tensor>& inputs, const Tensor& first_row);

}  // namespace maxtext
