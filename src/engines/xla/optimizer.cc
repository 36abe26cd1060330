#include <limits>

#include "engines/xla/trace.h"

namespace maxtext {
namespace {

/// Formulas of one shard, in its dtype.
class Update {
 public:
  Update(XlaContext& context, const TensorSpec& shard, const Tensor& schedule, const Tensor& clip)
      : writer_(context.writer), shard_(shard), schedule_(context.load(schedule)), clip_(context.load(clip)) {}

  /// learning rate, 1 − b1^t, 1 − b2^t for i = 0, 1, 2.
  XlaValue schedule(std::int64_t i) const { return everywhere(element(schedule_, i)); }
  XlaValue factor() const { return everywhere(element(clip_, 0)); }

  XlaValue number(double value) const { return writer_.constant(shard_, value); }
  XlaValue times(const XlaValue& a, const XlaValue& b) const { return writer_.binary("multiply", a, b); }
  XlaValue plus(const XlaValue& a, const XlaValue& b) const { return writer_.binary("add", a, b); }
  XlaValue minus(const XlaValue& a, const XlaValue& b) const { return writer_.binary("subtract", a, b); }
  XlaValue over(const XlaValue& a, const XlaValue& b) const { return writer_.binary("divide", a, b); }
  XlaValue root(const XlaValue& a) const { return writer_.unary("sqrt", a); }

  /// `next` where the step is applied, else `now` bit for bit: chosen, so that no NaN of `next` can reach it.
  XlaValue applied(const XlaValue& next, const XlaValue& now) const {
    const XlaValue apply = element(clip_, 1);
    const XlaValue applies = writer_.compare("NE", apply, writer_.constant(apply.spec, 0));
    return writer_.select(writer_.broadcast(applies, shard_.shape, {}), next, now);
  }

 private:
  XlaValue element(const XlaValue& vector, std::int64_t i) const {
    return writer_.reshape(writer_.slice(vector, {i}, {i + 1}), {});
  }

  XlaValue everywhere(const XlaValue& scalar) const {
    return writer_.broadcast(writer_.convert(scalar, shard_.dtype), shard_.shape, {});
  }

  StableHloWriter& writer_;
  TensorSpec shard_;
  XlaValue schedule_;
  XlaValue clip_;
};

}  // namespace

/// A few numbers in float64: cheap even where that is emulated.
void trace(XlaContext& context, const ClipFactor& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const XlaValue norm = writer.unary("sqrt", writer.reduce("add", context.load(inputs[0]), {0}));
  const XlaValue one = writer.constant(norm.spec, 1);
  XlaValue factor = one;
  if (op.threshold > 0) {
    const XlaValue threshold = writer.constant(norm.spec, op.threshold);
    factor = writer.select(writer.compare("GE", norm, threshold), writer.binary("divide", threshold, norm), factor);
  }
  // False for NaN, too.
  const XlaValue finite =
      writer.compare("LT", norm, writer.constant(norm.spec, std::numeric_limits<double>::infinity()));
  const XlaValue apply = writer.select(finite, one, writer.constant(norm.spec, 0));
  const std::vector<XlaValue> clip = {writer.reshape(factor, {1}), writer.reshape(apply, {1})};
  context.store(outputs[0], writer.convert(writer.concatenate(clip, 0), DType::float32));
  context.store(outputs[1], writer.convert(norm, DType::float32));
}

void trace(XlaContext& context, const AdamW& op, XlaInputs inputs, XlaOutputs outputs) {
  const Update u(context, inputs[0].spec(), inputs[4], inputs[5]);
  const XlaValue parameter = context.load(inputs[0]);
  const XlaValue m = context.load(inputs[2]);
  const XlaValue v = context.load(inputs[3]);
  const XlaValue g = u.times(context.load(inputs[1]), u.factor());
  const XlaValue next_m = u.plus(u.times(u.number(op.b1), m), u.times(u.number(1 - op.b1), g));
  const XlaValue next_v = u.plus(u.times(u.number(op.b2), v), u.times(u.number(1 - op.b2), u.times(g, g)));
  const XlaValue mean_square = u.plus(u.over(next_v, u.schedule(2)), u.number(op.epsilon_root));
  const XlaValue update = u.over(u.over(next_m, u.schedule(1)), u.plus(u.root(mean_square), u.number(op.epsilon)));
  const XlaValue decayed = u.plus(update, u.times(u.number(op.weight_decay), parameter));
  const XlaValue next_parameter = u.minus(parameter, u.times(u.schedule(0), decayed));
  context.store(outputs[0], u.applied(next_parameter, parameter));
  context.store(outputs[1], u.applied(next_m, m));
  context.store(outputs[2], u.applied(next_v, v));
}

void trace(XlaContext& context, const Sgd& /*op*/, XlaInputs inputs, XlaOutputs outputs) {
  const Update u(context, inputs[0].spec(), inputs[2], inputs[3]);
  const XlaValue parameter = context.load(inputs[0]);
  const XlaValue rate = u.times(u.schedule(0), u.factor());
  const XlaValue next = u.minus(parameter, u.times(rate, context.load(inputs[1])));
  context.store(outputs[0], u.applied(next, parameter));
}

}  // namespace maxtext
