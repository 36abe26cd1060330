#include "engines/xla/trace.h"

namespace maxtext {
namespace {

/// Values of N tokens; T is the accumulation dtype.
struct TokenLoss {
  XlaValue weight;   // [N]
  XlaValue lse;      // [N]
  XlaValue nll;      // [N], 0 where the weight is 0
  XlaValue softmax;  // [N, V]
  XlaValue target;   // [N, V], 1 at the target
};

XlaValue along_rows(StableHloWriter& writer, const XlaValue& per_token, const Shape& shape) {
  return writer.broadcast(per_token, shape, {0});
}

XlaValue scaled(StableHloWriter& writer, double factor, const XlaValue& x) {
  return writer.binary("multiply", writer.constant(x.spec, factor), x);
}

TokenLoss token_loss(StableHloWriter& writer, const XlaValue& logits, const XlaValue& targets, const XlaValue& weight,
                     const XlaValue& weighted) {
  const Shape& shape = logits.spec.shape;
  TokenLoss loss;
  loss.weight = weight;
  const XlaValue maximum = writer.reduce("maximum", logits, {1});
  const XlaValue exponentials =
      writer.unary("exponential", writer.binary("subtract", logits, along_rows(writer, maximum, shape)));
  const XlaValue sum = writer.reduce("add", exponentials, {1});
  loss.lse = writer.binary("add", writer.unary("log", sum), maximum);
  loss.softmax = writer.binary("divide", exponentials, along_rows(writer, sum, shape));
  const XlaValue is_target =
      writer.compare("EQ", writer.iota({shape, targets.spec.dtype}, 1), writer.broadcast(targets, shape, {0}));
  loss.target = writer.convert(is_target, logits.spec.dtype);
  const XlaValue target_logit = writer.reduce("add", writer.binary("multiply", loss.target, logits), {1});
  loss.nll =
      writer.select(weighted, writer.binary("subtract", loss.lse, target_logit), writer.constant(weight.spec, 0));
  return loss;
}

/// [Σ w·nll, Σ w·z] in double.
XlaValue sums(StableHloWriter& writer, const TokenLoss& loss, double z_multiplier) {
  const XlaValue weight = writer.convert(loss.weight, DType::float64);
  const XlaValue lse = writer.convert(loss.lse, DType::float64);
  const XlaValue z = scaled(writer, z_multiplier, writer.binary("multiply", lse, lse));
  std::vector<XlaValue> parts;
  for (const XlaValue& x : {writer.convert(loss.nll, DType::float64), z}) {
    parts.push_back(writer.reshape(writer.reduce("add", writer.binary("multiply", weight, x), {0}), {1}));
  }
  return writer.concatenate(parts, 0);
}

/// The gradient of the logits: ((1 + 2·c·lse)·softmax − target)·weight·inverse_denominator.
XlaValue logits_gradient(StableHloWriter& writer, const TokenLoss& loss, const XlaValue& inverse, double z_multiplier) {
  const Shape& shape = loss.softmax.spec.shape;
  const XlaValue one = writer.constant(loss.lse.spec, 1);
  const XlaValue growth = writer.binary("add", one, scaled(writer, 2 * z_multiplier, loss.lse));
  const XlaValue difference = writer.binary(
      "subtract", writer.binary("multiply", loss.softmax, along_rows(writer, growth, shape)), loss.target);
  const XlaValue factor =
      writer.binary("multiply", loss.weight,
                    writer.broadcast(writer.convert(inverse, loss.weight.spec.dtype), loss.weight.spec.shape, {}));
  return writer.binary("multiply", difference, along_rows(writer, factor, shape));
}

}  // namespace

/// In one piece: the chunks that bound memory are to become a loop.
void trace(XlaContext& context, const LinearCrossEntropy& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const DType dtype = accumulation_dtype(inputs[0].dtype());
  const std::int64_t tokens = row_count(inputs[0].shape());
  const std::int64_t width = inputs[0].shape().back();
  const XlaValue weight = writer.reshape(writer.convert(context.load(inputs[3]), dtype), {tokens});
  const XlaValue weighted = writer.compare("NE", weight, writer.constant(weight.spec, 0));

  // What a token of weight 0 has in its hidden state must not reach anything, NaN included.
  XlaValue hidden = writer.reshape(writer.convert(context.load(inputs[0]), dtype), {tokens, width});
  hidden = writer.select(writer.broadcast(weighted, hidden.spec.shape, {0}), hidden, writer.constant(hidden.spec, 0));
  const XlaValue projection = writer.convert(context.load(inputs[1]), dtype);
  XlaValue logits = writer.dot(hidden, projection, {.lhs_contracting = {1}, .rhs_contracting = {1}});
  XlaValue tangent;  // of a softcap
  if (op.softcap > 0) {
    const XlaValue cap = writer.constant(logits.spec, op.softcap);
    tangent = writer.unary("tanh", writer.binary("divide", logits, cap));
    logits = writer.binary("multiply", cap, tangent);
  }
  const XlaValue targets = writer.reshape(context.load(inputs[2]), {tokens});
  const TokenLoss loss = token_loss(writer, logits, targets, weight, weighted);
  context.store(outputs[0], sums(writer, loss, op.z_loss_multiplier));
  context.store(outputs[1], writer.reshape(writer.convert(loss.nll, DType::float32), outputs[1].shape()));
  if (!op.with_gradient) return;

  XlaValue dlogits = logits_gradient(writer, loss, context.load(inputs[4]), op.z_loss_multiplier);
  if (op.softcap > 0) {
    const XlaValue one = writer.constant(tangent.spec, 1);
    const XlaValue slope = writer.binary("subtract", one, writer.binary("multiply", tangent, tangent));
    dlogits = writer.binary("multiply", dlogits, slope);
  }
  const XlaValue dhidden = writer.dot(dlogits, projection, {.lhs_contracting = {1}, .rhs_contracting = {0}});
  context.store(outputs[2], writer.reshape(writer.convert(dhidden, inputs[0].dtype()), outputs[2].shape()));
  const XlaValue dweight = writer.dot(dlogits, hidden, {.lhs_contracting = {0}, .rhs_contracting = {0}});
  context.store(outputs[3], op.accumulate ? writer.binary("add", context.load(inputs[5]), dweight) : dweight);
}

}  // namespace maxtext
