// How each op is written in StableHLO: one function per op, in the file of the name of its header in ops/. An op
// without a function here is an Error when it is traced. Formulas are those of the ops' headers.
#pragma once

#include <span>

#include "base/error.h"
#include "engines/xla/xla_context.h"
#include "ops/op.h"

namespace maxtext {

using XlaInputs = std::span<const Tensor>;
using XlaOutputs = std::span<Tensor>;

void trace(XlaContext& context, const Embedding& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const EmbeddingBackward& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const Linear& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const LinearBackwardInput& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const LinearBackwardWeight& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const BiasBackward& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const RmsNorm& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const RmsNormBackward& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const RopeTable& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const Rope& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const GatedActivation& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const GatedActivationBackward& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const Add& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const Scale& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const SoftCap& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const MaskRows& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const Cast& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const Assign& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const Fill& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const Slice& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const Concat& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const SumOfSquares& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const Transpose& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const Take& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const Sum& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const LinearCrossEntropy& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const LogitStatistics& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const CrossEntropyFromStatistics& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const AttentionForward& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const AttentionBackward& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const DecodeAttention& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const MergeStates& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const CacheAppend& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const CacheRead& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const AllGather& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const ReduceScatter& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const AllReduce& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const ClipFactor& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const AdamW& op, XlaInputs inputs, XlaOutputs outputs);
void trace(XlaContext& context, const Sgd& op, XlaInputs inputs, XlaOutputs outputs);

/// Reshape, View and collectives of one device are views and never get here.
template <typename T>
void trace(XlaContext& /*context*/, const T& op, XlaInputs /*inputs*/, XlaOutputs /*outputs*/) {
  fail("the xla engine has no way to trace {}", op.name);
}

}  // namespace maxtext
