#include <numeric>
#include <vector>

#include "engines/xla/rounding.h"
#include "engines/xla/trace.h"

namespace maxtext {

/// One operation rounds once in any dtype.
void trace(XlaContext& context, const Add& /*op*/, XlaInputs inputs, XlaOutputs outputs) {
  context.store(outputs[0], context.writer.binary("add", context.load(inputs[0]), context.load(inputs[1])));
}

void trace(XlaContext& context, const Scale& op, XlaInputs inputs, XlaOutputs outputs) {
  const XlaValue x = load_wide(context, inputs[0]);
  store_rounded(context, outputs[0], context.writer.binary("multiply", x, context.writer.constant(x.spec, op.factor)));
}

void trace(XlaContext& context, const SoftCap& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const XlaValue x = load_wide(context, inputs[0]);
  const XlaValue cap = writer.constant(x.spec, op.cap);
  const XlaValue tangent = writer.unary("tanh", writer.binary("divide", x, cap));
  store_rounded(context, outputs[0], writer.binary("multiply", cap, tangent));
}

void trace(XlaContext& context, const MaskRows& /*op*/, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const XlaValue x = context.load(inputs[0]);
  const XlaValue weights = context.load(inputs[1]);
  const XlaValue counts = writer.compare("NE", weights, writer.constant(weights.spec, 0));
  std::vector<std::int64_t> rows(weights.spec.shape.size());
  std::iota(rows.begin(), rows.end(), 0);
  const XlaValue mask = writer.broadcast(counts, x.spec.shape, rows);
  context.store(outputs[0], writer.select(mask, x, writer.constant(x.spec, 0)));
}

void trace(XlaContext& context, const Cast& op, XlaInputs inputs, XlaOutputs outputs) {
  context.store(outputs[0], context.writer.convert(context.load(inputs[0]), op.dtype));
}

void trace(XlaContext& context, const Assign& /*op*/, XlaInputs inputs, XlaOutputs outputs) {
  context.store(outputs[0], context.writer.reshape(context.load(inputs[0]), outputs[0].shape()));
}

void trace(XlaContext& context, const Fill& op, XlaInputs /*inputs*/, XlaOutputs outputs) {
  context.store(outputs[0], context.writer.constant(op.spec, op.value));
}

}  // namespace maxtext
