#include <limits>

#include "engines/xla/loss_sums.h"
#include "engines/xla/trace.h"

namespace maxtext {
namespace {

XlaValue along_rows(StableHloWriter& writer, const XlaValue& per_token, const Shape& shape) {
  return writer.broadcast(per_token, shape, {0});
}

XlaValue scaled(StableHloWriter& writer, double factor, const XlaValue& x) {
  return writer.binary("multiply", writer.constant(x.spec, factor), x);
}

/// Boolean [N, V]: where a row of the head, of which the first is `first_row`, is the token's target.
XlaValue target_places(StableHloWriter& writer, const XlaValue& targets, const XlaValue& first_row,
                       const Shape& shape) {
  const TensorSpec places{shape, DType::int32};
  const XlaValue row = writer.binary("add", writer.iota(places, 1), writer.broadcast(first_row, shape, {}));
  return writer.compare("EQ", row, along_rows(writer, targets, shape));
}

/// [P, 3, N] -> statistic `which` as [P, N].
XlaValue statistic(StableHloWriter& writer, const XlaValue& statistics, std::int64_t which) {
  const Shape& shape = statistics.spec.shape;
  return writer.reshape(writer.slice(statistics, {0, which, 0}, {shape[0], which + 1, shape[2]}), {shape[0], shape[2]});
}

/// Of all parts, values [N].
struct Merged {
  XlaValue maximum;
  XlaValue sum;
  XlaValue target_logit;
};

/// Statistics of tokens of weight 0 are taken as zeros: they may hold NaN.
Merged merge(StableHloWriter& writer, const XlaValue& statistics, const XlaValue& counts) {
  const auto part = [&](std::int64_t which) {
    const XlaValue values = statistic(writer, statistics, which);
    return writer.select(writer.broadcast(counts, values.spec.shape, {1}), values, writer.constant(values.spec, 0));
  };
  Merged merged;
  const XlaValue maxima = part(0);
  merged.maximum = writer.reduce("maximum", maxima, {0});
  const XlaValue below = writer.binary("subtract", maxima, writer.broadcast(merged.maximum, maxima.spec.shape, {1}));
  merged.sum = writer.reduce("add", writer.binary("multiply", part(1), writer.unary("exponential", below)), {0});
  merged.target_logit = writer.reduce("add", part(2), {0});
  return merged;
}

}  // namespace

void trace(XlaContext& context, const LogitStatistics& /*op*/, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const XlaValue logits = context.load(inputs[0]);
  const Shape& shape = logits.spec.shape;
  const XlaValue maximum = writer.reduce("maximum", logits, {1});
  // Below −∞ nothing is subtracted: exp(−∞ + ∞) would be NaN.
  const XlaValue empty =
      writer.compare("EQ", maximum, writer.constant(maximum.spec, -std::numeric_limits<double>::infinity()));
  const XlaValue reference = writer.select(empty, writer.constant(maximum.spec, 0), maximum);
  const XlaValue exponentials =
      writer.unary("exponential", writer.binary("subtract", logits, along_rows(writer, reference, shape)));
  const XlaValue is_target = target_places(writer, context.load(inputs[1]), context.load(inputs[2]), shape);
  const XlaValue target_logits = writer.select(is_target, logits, writer.constant(logits.spec, 0));
  std::vector<XlaValue> rows;
  for (const XlaValue& x :
       {maximum, writer.reduce("add", exponentials, {1}), writer.reduce("add", target_logits, {1})}) {
    rows.push_back(writer.reshape(x, {1, shape[0]}));
  }
  context.store(outputs[0], writer.concatenate(rows, 0));
}

void trace(XlaContext& context, const CrossEntropyFromStatistics& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const XlaValue statistics = context.load(inputs[0]);
  const XlaValue weight = writer.convert(context.load(inputs[2]), statistics.spec.dtype);
  const XlaValue counts = writer.compare("NE", weight, writer.constant(weight.spec, 0));
  const Merged merged = merge(writer, statistics, counts);
  const XlaValue zero = writer.constant(weight.spec, 0);
  const XlaValue lse =
      writer.select(counts, writer.binary("add", writer.unary("log", merged.sum), merged.maximum), zero);
  const XlaValue nll = writer.select(counts, writer.binary("subtract", lse, merged.target_logit), zero);
  context.store(outputs[0], weighted_loss_sums(writer, weight, nll, lse, op.z_loss_multiplier));
  context.store(outputs[1], writer.convert(nll, DType::float32));
  if (!op.with_gradient) return;

  // ((1 + 2·c·lse)·softmax − target)·slope·weight·inverse_denominator, and zeros where the weight is 0.
  const XlaValue logits = context.load(inputs[3]);
  const Shape& shape = logits.spec.shape;
  const XlaValue one = writer.constant(lse.spec, 1);
  const XlaValue growth = writer.binary("add", one, scaled(writer, 2 * op.z_loss_multiplier, lse));
  const XlaValue softmax =
      writer.unary("exponential", writer.binary("subtract", logits, along_rows(writer, lse, shape)));
  const XlaValue is_target =
      writer.convert(target_places(writer, context.load(inputs[1]), context.load(inputs[5]), shape), logits.spec.dtype);
  XlaValue gradient =
      writer.binary("subtract", writer.binary("multiply", softmax, along_rows(writer, growth, shape)), is_target);
  if (op.softcap > 0) {
    const XlaValue tangent = scaled(writer, 1 / op.softcap, logits);
    const XlaValue slope =
        writer.binary("subtract", writer.constant(logits.spec, 1), writer.binary("multiply", tangent, tangent));
    gradient = writer.binary("multiply", gradient, slope);
  }
  const XlaValue inverse = writer.convert(context.load(inputs[4]), weight.spec.dtype);
  const XlaValue factor = writer.binary("multiply", weight, writer.broadcast(inverse, weight.spec.shape, {}));
  gradient = writer.binary("multiply", gradient, along_rows(writer, factor, shape));
  context.store(outputs[2],
                writer.select(along_rows(writer, counts, shape), gradient, writer.constant(logits.spec, 0)));
}

}  // namespace maxtext
