#include "engines/xla/attention_state.h"

#include <limits>

namespace maxtext {
namespace {

/// A sink is a state m = sink, l = 1, o = 0.
XlaAttentionState with_sinks(StableHloWriter& writer, const XlaAttentionState& state, const XlaValue& sinks) {
  const XlaValue sink = writer.broadcast(sinks, state.m.spec.shape, {1});
  XlaAttentionState joined;
  joined.m = writer.binary("maximum", state.m, sink);
  const XlaValue kept = weight_of(writer, state.m, joined.m);
  joined.l = writer.binary("add", writer.binary("multiply", kept, state.l), weight_of(writer, sink, joined.m));
  joined.o = writer.binary("multiply", state.o, along_head_dim(writer, kept, state.o.spec.shape));
  return joined;
}

}  // namespace

XlaValue subtrahend(StableHloWriter& writer, const XlaValue& maximum) {
  const XlaValue lowest = writer.constant(maximum.spec, -std::numeric_limits<double>::infinity());
  return writer.select(writer.compare("EQ", maximum, lowest), writer.constant(maximum.spec, 0), maximum);
}

XlaValue weight_of(StableHloWriter& writer, const XlaValue& x, const XlaValue& maximum) {
  return writer.unary("exponential", writer.binary("subtract", x, subtrahend(writer, maximum)));
}

XlaValue along_head_dim(StableHloWriter& writer, const XlaValue& per_row, const Shape& o) {
  return writer.broadcast(writer.transpose(per_row, {0, 2, 1}), o, {0, 1, 2});
}

void store_state(XlaContext& context, XlaAttentionState state, const std::optional<Tensor>& sinks, bool normalize,
                 XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  if (sinks) state = with_sinks(writer, state, context.load(*sinks));
  if (normalize) {
    const XlaValue nothing = writer.compare("EQ", state.l, writer.constant(state.l.spec, 0));
    const XlaValue divisor = writer.select(nothing, writer.constant(state.l.spec, 1), state.l);
    state.o = writer.binary("divide", state.o, along_head_dim(writer, divisor, state.o.spec.shape));
  }
  context.store(outputs[0], state.o);
  context.store(outputs[1], state.l);
  context.store(outputs[2], state.m);
}

}  // namespace maxtext
