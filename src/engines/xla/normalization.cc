#include <numeric>

#include "engines/xla/rounding.h"
#include "engines/xla/trace.h"

namespace maxtext {
namespace {

/// What forward and backward share, in the dtype of sums and in the shape of x.
struct Norm {
  XlaValue x;
  XlaValue weight;                 // weight + offset, for every row
  XlaValue inverse_rms;            // 1/sqrt(mean(x²) + epsilon)
  std::vector<std::int64_t> rows;  // dimensions of the rows
};

/// mean over the last dimension, for every element of it.
XlaValue row_mean(StableHloWriter& writer, const XlaValue& x, const std::vector<std::int64_t>& rows) {
  const XlaValue sum = writer.reduce("add", x, {std::ssize(rows)});
  const XlaValue size = writer.constant(sum.spec, static_cast<double>(x.spec.shape.back()));
  return writer.broadcast(writer.binary("divide", sum, size), x.spec.shape, rows);
}

Norm normalise(XlaContext& context, const Tensor& x, const Tensor& weight, double epsilon, double weight_offset) {
  StableHloWriter& writer = context.writer;
  const DType dtype = accumulation_dtype(x.dtype());
  Norm norm;
  norm.rows.resize(x.shape().size() - 1);
  std::iota(norm.rows.begin(), norm.rows.end(), 0);
  norm.x = load_wide(context, x);
  norm.weight = writer.broadcast(writer.convert(context.load(weight), dtype), x.shape(), {std::ssize(norm.rows)});
  if (weight_offset != 0) {
    norm.weight = writer.binary("add", norm.weight, writer.constant(norm.weight.spec, weight_offset));
  }
  const XlaValue mean_square = row_mean(writer, writer.binary("multiply", norm.x, norm.x), norm.rows);
  norm.inverse_rms =
      writer.unary("rsqrt", writer.binary("add", mean_square, writer.constant(mean_square.spec, epsilon)));
  return norm;
}

}  // namespace

void trace(XlaContext& context, const RmsNorm& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const Norm norm = normalise(context, inputs[0], inputs[1], op.epsilon, op.weight_offset);
  const XlaValue y = writer.binary("multiply", writer.binary("multiply", norm.x, norm.inverse_rms), norm.weight);
  store_rounded(context, outputs[0], y);
}

void trace(XlaContext& context, const RmsNormBackward& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const Norm norm = normalise(context, inputs[1], inputs[2], op.epsilon, op.weight_offset);
  const XlaValue dy = load_wide(context, inputs[0]);
  const XlaValue normed = writer.binary("multiply", norm.x, norm.inverse_rms);
  const XlaValue g = writer.binary("multiply", dy, norm.weight);
  // dx = r·(g − x̂·mean(g·x̂)) with x̂ = x·r.
  const XlaValue projection =
      writer.binary("multiply", normed, row_mean(writer, writer.binary("multiply", g, normed), norm.rows));
  const XlaValue dx = writer.binary("multiply", norm.inverse_rms, writer.binary("subtract", g, projection));
  store_rounded(context, outputs[0], dx);
  const XlaValue dw = writer.reduce("add", writer.binary("multiply", dy, normed), norm.rows);
  context.store(outputs[1], op.accumulate ? writer.binary("add", context.load(inputs[3]), dw) : dw);
}

}  // namespace maxtext
