// The closed set of ops. An op is data: its attributes. Each knows its shape rule (`infer`) and, where it multiplies
// matrices, its FLOPs; an engine knows how to run it. An engine that misses an op does not compile.
#pragma once

#include <variant>

#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/cache_append.h"
#include "ops/cache_read.h"
#include "ops/collectives.h"
#include "ops/cross_entropy.h"
#include "ops/decode_attention.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/layout.h"
#include "ops/linear.h"
#include "ops/merge_states.h"
#include "ops/normalization.h"
#include "ops/optimizer.h"
#include "ops/parallel_cross_entropy.h"
#include "ops/reduction.h"
#include "ops/rope.h"

namespace maxtext {

using Op = std::variant<Embedding, EmbeddingBackward, Linear, LinearBackwardInput, LinearBackwardWeight, BiasBackward,
                        RmsNorm, RmsNormBackward, RopeTable, Rope, GatedActivation, GatedActivationBackward, Add, Scale,
                        SoftCap, MaskRows, Cast, Assign, Fill, Reshape, View, Slice, Concat, Transpose, Take, Sum,
                        SumOfSquares, LinearCrossEntropy, LogitStatistics, CrossEntropyFromStatistics, AttentionForward,
                        AttentionBackward, DecodeAttention, MergeStates, CacheAppend, CacheRead, AllGather,
                        ReduceScatter, AllReduce, ClipFactor, AdamW, Sgd>;

std::string_view op_name(const Op& op);

/// The shape rule: specs of the outputs; throws Error naming the op and the inputs where they do not fit.
std::vector<OutputSpec> infer(const Op& op, InputSpecs inputs);

/// Floating-point operations, a multiply-add counting 2; 0 for ops without matrix products.
double flops(const Op& op, InputSpecs inputs);

}  // namespace maxtext
