#include "engines/xla/trace.h"

namespace maxtext {

void trace(XlaContext& context, const Embedding& op, XlaInputs inputs, XlaOutputs outputs) {
  require_computed_dtype(op.name, inputs[0], outputs[0]);
  context.store(outputs[0], context.writer.gather_rows(context.load(inputs[0]), context.load(inputs[1])));
}

void trace(XlaContext& context, const EmbeddingBackward& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const XlaValue start = op.accumulate ? context.load(inputs[2]) : writer.constant(inputs[2].spec(), 0);
  const XlaValue dy = writer.convert(context.load(inputs[0]), inputs[2].dtype());
  context.store(outputs[0], writer.scatter_add_rows(start, context.load(inputs[1]), dy));
}

}  // namespace maxtext
