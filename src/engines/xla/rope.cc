#include <cmath>
#include <numbers>

#include "engines/xla/trace.h"

namespace maxtext {
namespace {

struct Rotation {
  XlaValue cos;
  XlaValue sin;
};

/// In fp64 programs: as the cpu engine computes it.
Rotation rotation_in_double(StableHloWriter& writer, const XlaValue& positions,
                            const std::vector<double>& inverse_frequencies, const Shape& shape) {
  const XlaValue frequencies = writer.constant_vector(inverse_frequencies, DType::float64);
  const XlaValue angles =
      writer.binary("multiply", writer.broadcast(writer.convert(positions, DType::float64), shape, {0, 1}),
                    writer.broadcast(frequencies, shape, {2}));
  return {writer.unary("cosine", angles), writer.unary("sine", angles)};
}

/// Turns per position modulo 1 in units of 2⁻⁶⁴, as the signed number of the same bits. A double holds each exactly.
std::vector<double> turns_per_position(const std::vector<double>& inverse_frequencies) {
  std::vector<double> turns;
  for (const double frequency : inverse_frequencies) {
    const double whole = frequency / (2 * std::numbers::pi);
    const double units = std::trunc(std::ldexp(whole - std::floor(whole), 64));
    turns.push_back(units < std::ldexp(1, 63) ? units : units - std::ldexp(1, 64));
  }
  return turns;
}

/// Angles as fractions of a turn in units of 2⁻³², int32: position · turns modulo 2⁶⁴ is exact in integers, so that
/// every position is as good as position 1 (float32 angles are 1e-3 off at 131071, and TPUs have no double).
XlaValue fraction_of_turn(StableHloWriter& writer, const XlaValue& positions,
                          const std::vector<double>& inverse_frequencies, const Shape& shape) {
  const XlaValue turns = writer.constant_vector(turns_per_position(inverse_frequencies), DType::int64);
  const XlaValue product =
      writer.binary("multiply", writer.broadcast(writer.convert(positions, DType::int64), shape, {0, 1}),
                    writer.broadcast(turns, shape, {2}));
  const XlaValue upper = writer.binary("shift_right_arithmetic", product, writer.constant(product.spec, 32));
  return writer.convert(upper, DType::int32);
}

/// cos and sin in float32 of the angle's distance to the nearest quarter turn, which is at most π/4, turned by those
/// quarters. Integers wrap: the quarter of the largest fraction is −2, which has the two low bits of 2.
Rotation rotation_by_fraction(StableHloWriter& writer, const XlaValue& fraction) {
  const auto integer = [&](double value) { return writer.constant(fraction.spec, value); };
  const XlaValue shift = integer(30);
  const XlaValue quarter =
      writer.binary("shift_right_arithmetic", writer.binary("add", fraction, integer(std::ldexp(1, 29))), shift);
  const XlaValue rest =
      writer.convert(writer.binary("subtract", fraction, writer.binary("shift_left", quarter, shift)), DType::float32);
  const XlaValue angle =
      writer.binary("multiply", rest, writer.constant(rest.spec, std::ldexp(2 * std::numbers::pi, -32)));
  const XlaValue cos = writer.unary("cosine", angle);
  const XlaValue sin = writer.unary("sine", angle);
  const auto has_bit = [&](const XlaValue& x, double bit) {
    return writer.compare("NE", writer.binary("and", x, integer(bit)), integer(0));
  };
  const auto negated_where = [&](const XlaValue& condition, const XlaValue& x) {
    return writer.select(condition, writer.unary("negate", x), x);
  };
  // cos and sin of the quarters 0, 1, 2, 3: (c, s), (−s, c), (−c, −s), (s, −c).
  const XlaValue odd = has_bit(quarter, 1);
  return {negated_where(has_bit(writer.binary("add", quarter, integer(1)), 2), writer.select(odd, sin, cos)),
          negated_where(has_bit(quarter, 2), writer.select(odd, cos, sin))};
}

}  // namespace

/// Positions are data, so tables are computed by the program. In float32 they are within 2e-7 of exact.
void trace(XlaContext& context, const RopeTable& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const Shape& shape = outputs[0].shape();
  const XlaValue positions = context.load(inputs[0]);
  const Rotation rotation =
      op.dtype == DType::float64
          ? rotation_in_double(writer, positions, op.inverse_frequencies, shape)
          : rotation_by_fraction(writer, fraction_of_turn(writer, positions, op.inverse_frequencies, shape));
  const auto scaled = [&](const XlaValue& x) {
    if (op.attention_factor == 1) return x;
    return writer.binary("multiply", x, writer.constant(x.spec, op.attention_factor));
  };
  context.store(outputs[0], scaled(rotation.cos));
  context.store(outputs[1], scaled(rotation.sin));
}

void trace(XlaContext& context, const Rope& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const Shape& shape = inputs[0].shape();
  Shape half_shape = shape;
  half_shape[3] /= 2;
  const XlaValue x = writer.convert(context.load(inputs[0]), inputs[1].dtype());
  const auto half = [&](std::int64_t begin) {
    return writer.slice(x, {0, 0, 0, begin}, {shape[0], shape[1], shape[2], begin + half_shape[3]});
  };
  const XlaValue low = half(0);
  const XlaValue high = half(half_shape[3]);
  const XlaValue cos = writer.broadcast(context.load(inputs[1]), half_shape, {0, 1, 3});
  XlaValue sin = writer.broadcast(context.load(inputs[2]), half_shape, {0, 1, 3});
  if (op.inverse) sin = writer.unary("negate", sin);
  const std::vector<XlaValue> rotated = {
      writer.binary("subtract", writer.binary("multiply", low, cos), writer.binary("multiply", high, sin)),
      writer.binary("add", writer.binary("multiply", high, cos), writer.binary("multiply", low, sin))};
  context.store(outputs[0], writer.convert(writer.concatenate(rotated, 3), outputs[0].dtype()));
}

}  // namespace maxtext
