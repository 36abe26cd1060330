// The attention core on a CPU, forward and backward, over raw memory. What it computes is the contract of
// ops/attention.h; how, and what was measured, is told in attention_forward.cc, attention_backward.cc and kernels/.
#pragma once

#include <cstdint>

#include "engines/cpu/instruction_set.h"
#include "engines/cpu/workspace.h"
#include "tensor/dtype.h"

namespace maxtext {

/// Sizes of one call. Query head h reads KV head h / (query_heads / kv_heads); the arrays k and v hold the KV heads
/// kv_head_begin … kv_head_begin + group_kv_heads − 1, and only the query heads of those are computed and written.
struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t query_length = 0;  ///< T: query slots of this device
  std::int64_t query_heads = 0;
  std::int64_t head_dim = 0;   ///< D: any size; a multiple of 16 wastes nothing
  std::int64_t devices = 1;    ///< P: devices the keys were gathered from
  std::int64_t kv_length = 0;  ///< T_kv: key slots per device
  std::int64_t group_kv_heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t kv_head_begin = 0;
  double scale = 1;
  double softcap = 0;  ///< s = softcap·tanh(scale·q·kᵀ/softcap); 0: none
};

/// How to run. Results do not depend on `threads`, bit for bit; they do depend on the instruction set (rounding).
struct AttentionExecution {
  int threads = 0;  ///< size of the OpenMP team; 0: omp_get_max_threads() of the calling thread
  InstructionSet instruction_set = active_instruction_set();
};

/// Layouts: q, o [B, T, query_heads, D]; k, v [P, B, T_kv, group_kv_heads, D]; gathered_slots int32 [B, P·T_kv] (for
/// original token j its place p·T_kv + t); key_begin, key_end int32 [B, T] (query i sees key_begin <= j < key_end);
/// logsumexp [B, query_heads, T]. All row-major, 4- or 8-byte aligned. Throws Error where sizes do not fit together.
///
/// s = scale · q · kᵀ, soft-capped where the shape says so; logsumexp = log Σ exp(s); o = Σ exp(s − logsumexp) · v. A
/// row's bits depend on its own interval and the keys in it only: not on threads, on the rows computed beside it, nor
/// on where its keys lie. A query without keys gets o = 0, logsumexp = −∞. K/V rows outside every interval are never
/// read.
void attention_forward(const AttentionShape& shape, const float* q, const float* k, const float* v,
                       const std::int32_t* gathered_slots, const std::int32_t* key_begin, const std::int32_t* key_end,
                       float* o, float* logsumexp, Workspace& workspace, const AttentionExecution& execution = {});
void attention_forward(const AttentionShape& shape, const double* q, const double* k, const double* v,
                       const std::int32_t* gathered_slots, const std::int32_t* key_begin, const std::int32_t* key_end,
                       double* o, double* logsumexp, Workspace& workspace, const AttentionExecution& execution = {});

/// dq [B, T, query_heads, D] (heads of this group only); dk, dv [P, B, T_kv, group_kv_heads, D], every slot written,
/// zero where no query looked. Δ = rowsum(do ∘ o); p = exp(s − logsumexp); dv = pᵀ·do; ds = p ∘ (do·vᵀ − Δ)·scale;
/// dq = ds·k; dk = dsᵀ·q; with a softcap ds is multiplied by 1 − (s/softcap)² too. Bitwise reproducible for any number
/// of threads. Queries without keys get dq = 0 and contribute nothing, whatever their q, o and do hold.
void attention_backward(const AttentionShape& shape, const float* q, const float* k, const float* v,
                        const std::int32_t* gathered_slots, const std::int32_t* key_begin, const std::int32_t* key_end,
                        const float* o, const float* logsumexp, const float* do_, float* dq, float* dk, float* dv,
                        Workspace& workspace, const AttentionExecution& execution = {});
void attention_backward(const AttentionShape& shape, const double* q, const double* k, const double* v,
                        const std::int32_t* gathered_slots, const std::int32_t* key_begin, const std::int32_t* key_end,
                        const double* o, const double* logsumexp, const double* do_, double* dq, double* dk, double* dv,
                        Workspace& workspace, const AttentionExecution& execution = {});

/// Bytes that a call takes of its workspace, whatever its data.
std::int64_t attention_forward_workspace(const AttentionShape& shape, DType dtype,
                                         const AttentionExecution& execution = {});
std::int64_t attention_backward_workspace(const AttentionShape& shape, DType dtype,
                                          const AttentionExecution& execution = {});

}  // namespace maxtext
