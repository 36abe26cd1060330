#include "engines/cpu/attention_kernel.h"
#include "engines/cpu/run.h"

namespace maxtext {
namespace {

template <typename AttentionOp>
AttentionShape shape_of(const AttentionOp& op, const Shape& q, const Shape& k) {
  return {.batch = q[0],
          .query_length = q[1],
          .query_heads = q[2],
          .head_dim = q[3],
          .devices = k[0],
          .kv_length = k[2],
          .group_kv_heads = k[3],
          .kv_heads = op.kv_heads,
          .kv_head_begin = op.kv_head_begin,
          .scale = op.scale,
          .softcap = op.softcap};
}

}  // namespace

void run(CpuContext& context, const AttentionForward& op, Inputs inputs, Outputs outputs) {
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    attention_forward(shape_of(op, inputs[0].shape(), inputs[1].shape()), data<T>(inputs[0]), data<T>(inputs[1]),
                      data<T>(inputs[2]), data<std::int32_t>(inputs[3]), data<std::int32_t>(inputs[4]),
                      data<std::int32_t>(inputs[5]), data<T>(outputs[0]), data<T>(outputs[1]), context.workspace);
  });
}

void run(CpuContext& context, const AttentionBackward& op, Inputs inputs, Outputs outputs) {
  with_real(op.name, inputs[0].dtype(), [&]<typename T>(T) {
    attention_backward(shape_of(op, inputs[0].shape(), inputs[1].shape()), data<T>(inputs[0]), data<T>(inputs[1]),
                       data<T>(inputs[2]), data<std::int32_t>(inputs[3]), data<std::int32_t>(inputs[4]),
                       data<std::int32_t>(inputs[5]), data<T>(inputs[6]), data<T>(inputs[7]), data<T>(inputs[8]),
                       data<T>(outputs[0]), data<T>(outputs[1]), data<T>(outputs[2]), context.workspace);
  });
}

OpScratch op_scratch(const AttentionForward& op, InputSpecs inputs, int threads) {
  const AttentionShape shape = shape_of(op, inputs[0].shape, inputs[1].shape);
  return {attention_forward_workspace(shape, inputs[0].dtype, {.threads = threads}), {}};
}

OpScratch op_scratch(const AttentionBackward& op, InputSpecs inputs, int threads) {
  const AttentionShape shape = shape_of(op, inputs[0].shape, inputs[1].shape);
  return {attention_backward_workspace(shape, inputs[0].dtype, {.threads = threads}), {}};
}

}  // namespace maxtext
