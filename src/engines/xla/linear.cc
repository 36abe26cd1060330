#include <numeric>

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
  const XlaValue wide = context.writer.convert(gradient, destination.dtype());
  context.store(output, accumulate ? context.writer.binary("add", context.load(destination), wide) : wide);
}

}  // namespace

void require_computed_dtype(std::string_view op, const Tensor& parameter, const Tensor& output) {
  if (parameter.dtype() == output.dtype()) return;
  fail("{}: the xla spike computes in the dtype of its parameters; {} would have to be {}", op,
       to_string(parameter.spec()), dtype_name(output.dtype()));
}

void trace(XlaContext& context, const Linear& op, XlaInputs inputs, XlaOutputs outputs) {
  require_computed_dtype(op.name, inputs[1], outputs[0]);
  StableHloWriter& writer = context.writer;
  XlaValue y = writer.dot(context.load(inputs[0]), context.load(inputs[1]),
                          {.lhs_contracting = {last(inputs[0])}, .rhs_contracting = {1}});
  if (inputs.size() == 3) {
    y = writer.binary("add", y, writer.broadcast(context.load(inputs[2]), y.spec.shape, {last(outputs[0])}));
  }
  context.store(outputs[0], y);
}

void trace(XlaContext& context, const LinearBackwardInput& /*op*/, XlaInputs inputs, XlaOutputs outputs) {
  XlaValue dx = context.writer.dot(context.load(inputs[0]), context.load(inputs[1]),
                                   {.lhs_contracting = {last(inputs[0])}, .rhs_contracting = {0}});
  if (inputs.size() == 3) dx = context.writer.binary("add", context.load(inputs[2]), dx);
  context.store(outputs[0], dx);
}

void trace(XlaContext& context, const LinearBackwardWeight& op, XlaInputs inputs, XlaOutputs outputs) {
  const std::vector<std::int64_t> rows = row_dimensions(inputs[0]);
  const XlaValue dw = context.writer.dot(context.load(inputs[0]), context.load(inputs[1]),
                                         {.lhs_contracting = rows, .rhs_contracting = rows});
  store_gradient(context, inputs[2], outputs[0], op.accumulate, dw);
}

void trace(XlaContext& context, const BiasBackward& op, XlaInputs inputs, XlaOutputs outputs) {
  const XlaValue dy = context.writer.convert(context.load(inputs[0]), inputs[1].dtype());
  store_gradient(context, inputs[1], outputs[0], op.accumulate,
                 context.writer.reduce("add", dy, row_dimensions(inputs[0])));
}

}  // namespace maxtext
