#include <cmath>
#include <numbers>

#include "engines/xla/rounding.h"
#include "engines/xla/trace.h"

namespace maxtext {
namespace {

struct ActivationValue {
  XlaValue value;
  XlaValue derivative;
};

XlaValue times(StableHloWriter& writer, double factor, const XlaValue& x) {
  return writer.binary("multiply", writer.constant(x.spec, factor), x);
}

XlaValue plus(StableHloWriter& writer, double term, const XlaValue& x) {
  return writer.binary("add", writer.constant(x.spec, term), x);
}

/// silu(x) = x·σ(x), silu'(x) = σ·(1 + x·(1 − σ)).
ActivationValue silu(StableHloWriter& writer, const XlaValue& x) {
  const XlaValue sigmoid = writer.unary("logistic", x);
  const XlaValue slope = writer.binary("multiply", x, plus(writer, 1, writer.unary("negate", sigmoid)));
  return {writer.binary("multiply", x, sigmoid), writer.binary("multiply", sigmoid, plus(writer, 1, slope))};
}

/// With u = sqrt(2/π)·(x + c·x³) and t = tanh(u): x/2·(1 + t), derivative (1 + t)/2 + x/2·(1 − t²)·u'.
ActivationValue gelu_tanh(StableHloWriter& writer, const XlaValue& x) {
  constexpr double kCubic = 0.044715;
  const double scale = std::sqrt(2 / std::numbers::pi);
  const XlaValue square = writer.binary("multiply", x, x);
  const XlaValue u = times(writer, scale, writer.binary("multiply", x, plus(writer, 1, times(writer, kCubic, square))));
  const XlaValue t = writer.unary("tanh", u);
  const XlaValue half_one_plus_t = times(writer, 0.5, plus(writer, 1, t));
  const XlaValue du = times(writer, scale, plus(writer, 1, times(writer, 3 * kCubic, square)));
  const XlaValue one_minus_t2 = plus(writer, 1, writer.unary("negate", writer.binary("multiply", t, t)));
  const XlaValue bend = writer.binary("multiply", times(writer, 0.5, x), writer.binary("multiply", one_minus_t2, du));
  return {writer.binary("multiply", x, half_one_plus_t), writer.binary("add", half_one_plus_t, bend)};
}

ActivationValue activate(StableHloWriter& writer, Activation activation, const XlaValue& x) {
  return activation == Activation::silu ? silu(writer, x) : gelu_tanh(writer, x);
}

}  // namespace

void trace(XlaContext& context, const GatedActivation& op, XlaInputs inputs, XlaOutputs outputs) {
  const XlaValue activated = activate(context.writer, op.activation, load_wide(context, inputs[0])).value;
  store_rounded(context, outputs[0], context.writer.binary("multiply", activated, load_wide(context, inputs[1])));
}

void trace(XlaContext& context, const GatedActivationBackward& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const XlaValue dy = load_wide(context, inputs[0]);
  const ActivationValue gate = activate(writer, op.activation, load_wide(context, inputs[1]));
  const XlaValue dy_up = writer.binary("multiply", dy, load_wide(context, inputs[2]));
  store_rounded(context, outputs[0], writer.binary("multiply", dy_up, gate.derivative));
  store_rounded(context, outputs[1], writer.binary("multiply", dy, gate.value));
}

}  // namespace maxtext
