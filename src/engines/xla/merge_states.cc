#include <limits>

#include "engines/xla/attention_state.h"

namespace maxtext {

void trace(XlaContext& context, const MergeStates& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const XlaValue o = context.load(inputs[0]);
  const XlaValue l = context.load(inputs[1]);
  const XlaValue m = context.load(inputs[2]);
  const XlaValue zeros = writer.constant(l.spec, 0);
  const XlaValue lowest = writer.constant(m.spec, -std::numeric_limits<double>::infinity());
  const XlaValue empty = writer.binary("or", writer.compare("EQ", l, zeros), writer.compare("EQ", m, lowest));

  XlaAttentionState merged;
  merged.m = writer.reduce("maximum", writer.select(empty, lowest, m), {0});
  const XlaValue difference =
      writer.binary("subtract", m, writer.broadcast(subtrahend(writer, merged.m), m.spec.shape, {1, 2, 3}));
  const XlaValue weight = writer.select(empty, zeros, writer.unary("exponential", difference));
  merged.l = writer.reduce("add", writer.select(empty, zeros, writer.binary("multiply", weight, l)), {0});
  // What an empty state holds may be NaN: it is left out, not multiplied by 0.
  const auto along = [&](const XlaValue& per_row) {
    return writer.broadcast(writer.transpose(per_row, {0, 1, 3, 2}), o.spec.shape, {0, 1, 2, 3});
  };
  const XlaValue weighted =
      writer.select(along(empty), writer.constant(o.spec, 0), writer.binary("multiply", along(weight), o));
  merged.o = writer.reduce("add", weighted, {0});
  store_state(context, merged, op.has_sinks ? std::optional(inputs[3]) : std::nullopt, op.normalize, outputs);
}

}  // namespace maxtext
