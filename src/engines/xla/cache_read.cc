#include "engines/xla/trace.h"

namespace maxtext {

void trace(XlaContext& context, const CacheRead& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const std::int64_t head_dim = inputs[0].dim(3);
  const XlaValue stored =
      writer.slice(context.load(inputs[0]), {0, op.kv_head, 0, 0}, {1, op.kv_head + 1, op.length, head_dim});
  XlaValue rows = writer.convert(stored, DType::float32);
  if (inputs.size() == 2) {
    const XlaValue scales = writer.slice(context.load(inputs[1]), {0, op.kv_head, 0}, {1, op.kv_head + 1, op.length});
    rows = writer.binary("multiply", rows, writer.broadcast(scales, rows.spec.shape, {0, 1, 2}));
  }
  context.store(outputs[0], writer.reshape(rows, outputs[0].shape()));
}

}  // namespace maxtext
