// How the cpu engine runs each op: one overload per op, so that a missing one does not compile. Outputs are allocated
// or alias inputs as the op's shape rule says. Every op uses the OpenMP team of the calling thread, and its result does
// not depend on the team's size.
#pragma once

#include <vector>

#include "engines/cpu/cpu_context.h"
#include "engines/cpu/scratch_bytes.h"

namespace maxtext {

void run(CpuContext& context, const Embedding& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const EmbeddingBackward& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const Linear& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const LinearBackwardInput& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const LinearBackwardWeight& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const BiasBackward& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const RmsNorm& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const RmsNormBackward& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const RopeTable& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const Rope& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const GatedActivation& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const GatedActivationBackward& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const Add& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const Scale& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const SoftCap& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const MaskRows& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const Cast& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const Assign& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const Fill& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const Reshape& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const View& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const Slice& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const Concat& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const Transpose& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const Take& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const Sum& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const SumOfSquares& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const LinearCrossEntropy& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const LogitStatistics& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const CrossEntropyFromStatistics& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const AttentionForward& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const AttentionBackward& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const DecodeAttention& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const MergeStates& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const CacheAppend& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const CacheRead& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const AllGather& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const ReduceScatter& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const AllReduce& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const ClipFactor& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const AdamW& op, Inputs inputs, Outputs outputs);
void run(CpuContext& context, const Sgd& op, Inputs inputs, Outputs outputs);

/// An all_gather of whole parts of memory that the group shares: it moves nothing, and its results, views of the whole
/// memory, wait until every member has written its part. Empty where an input is anything else. Peers read an input
/// until they drop the result, so its owner writes to it again only after a later collective of the group that
/// everybody starts after its last read (the reduction of the gradients' norm).
std::vector<Tensor> gather_shared_shards(CpuContext& context, const AllGather& op, Inputs inputs);

/// What ops take beside inputs and outputs (scratch_bytes.h): an overload for each that takes anything.
OpScratch op_scratch(const Linear& op, InputSpecs inputs, int threads);
OpScratch op_scratch(const BiasBackward& op, InputSpecs inputs, int threads);
OpScratch op_scratch(const RmsNorm& op, InputSpecs inputs, int threads);
OpScratch op_scratch(const RmsNormBackward& op, InputSpecs inputs, int threads);
OpScratch op_scratch(const LinearCrossEntropy& op, InputSpecs inputs, int threads);
OpScratch op_scratch(const AttentionForward& op, InputSpecs inputs, int threads);
OpScratch op_scratch(const AttentionBackward& op, InputSpecs inputs, int threads);
OpScratch op_scratch(const DecodeAttention& op, InputSpecs inputs, int threads);

}  // namespace maxtext
