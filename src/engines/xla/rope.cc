#include "engines/xla/trace.h"

namespace maxtext {

/// Angles in double, inside the program, because positions are data. A CPU computes them as the cpu engine does; for
/// TPUs, which have no double, a table of all positions is to be an argument and rows are to be gathered from it.
void trace(XlaContext& context, const RopeTable& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const Shape& shape = outputs[0].shape();
  const XlaValue positions = writer.convert(context.load(inputs[0]), DType::float64);
  const XlaValue frequencies = writer.constant_vector(op.inverse_frequencies, DType::float64);
  const XlaValue angles =
      writer.binary("multiply", writer.broadcast(positions, shape, {0, 1}), writer.broadcast(frequencies, shape, {2}));
  const XlaValue factor = writer.constant(angles.spec, op.attention_factor);
  const auto table = [&](std::string_view function) {
    return writer.convert(writer.binary("multiply", writer.unary(function, angles), factor), op.dtype);
  };
  context.store(outputs[0], table("cosine"));
  context.store(outputs[1], table("sine"));
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
