#include <numeric>

#include "engines/xla/rounding.h"
#include "engines/xla/trace.h"

namespace maxtext {
namespace {

/// 0 … rank−2: the dimensions of the rows of [..., N].
std::vector<std::int64_t> row_dimensions(const Tensor& tensor) {
  std::vector<std::int64_t> dimensions(tensor.shape().size() - 1);
  std::iota(dimensions.begin(), dimensions.end(), 0);
  return dimensions;
}

std::int64_t last(const Tensor& tensor) { return std::ssize(tensor.shape()) - 1; }

/// Adds to the gradient that is there, or stores.
void store_gradient(XlaContext& context, const Tensor& destination, const Tensor& output, bool accumulate,
                    const XlaValue& gradient) {
  context.store(output, accumulate ? context.writer.binary("add", context.load(destination), gradient) : gradient);
}

}  // namespace

/// Operands are multiplied as they are, except that a weight as it is stored is widened to float32 activations.
void trace(XlaContext& context, const Linear& /*op*/, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const DType dtype = accumulation_dtype(inputs[0].dtype());
  XlaValue y = writer.dot(context.load(inputs[0]), writer.convert(context.load(inputs[1]), inputs[0].dtype()),
                          {.lhs_contracting = {last(inputs[0])}, .rhs_contracting = {1}}, dtype);
  if (inputs.size() == 3) {
    const XlaValue bias = writer.convert(context.load(inputs[2]), dtype);
    y = writer.binary("add", y, writer.broadcast(bias, y.spec.shape, {last(outputs[0])}));
  }
  store_rounded(context, outputs[0], y);
}

void trace(XlaContext& context, const LinearBackwardInput& /*op*/, XlaInputs inputs, XlaOutputs outputs) {
  XlaValue dx = context.writer.dot(context.load(inputs[0]), context.load(inputs[1]),
                                   {.lhs_contracting = {last(inputs[0])}, .rhs_contracting = {0}},
                                   accumulation_dtype(inputs[0].dtype()));
  if (inputs.size() == 3) dx = context.writer.binary("add", load_wide(context, inputs[2]), dx);
  store_rounded(context, outputs[0], dx);
}

void trace(XlaContext& context, const LinearBackwardWeight& op, XlaInputs inputs, XlaOutputs outputs) {
  const std::vector<std::int64_t> rows = row_dimensions(inputs[0]);
  const XlaValue dw = context.writer.dot(context.load(inputs[0]), context.load(inputs[1]),
                                         {.lhs_contracting = rows, .rhs_contracting = rows}, inputs[2].dtype());
  store_gradient(context, inputs[2], outputs[0], op.accumulate, dw);
}

void trace(XlaContext& context, const BiasBackward& op, XlaInputs inputs, XlaOutputs outputs) {
  const XlaValue dy = context.writer.convert(context.load(inputs[0]), inputs[1].dtype());
  store_gradient(context, inputs[1], outputs[0], op.accumulate,
                 context.writer.reduce("add", dy, row_dimensions(inputs[0])));
}

}  // namespace maxtext
