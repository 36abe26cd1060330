#include <algorithm>

#include "engines/xla/trace.h"

namespace maxtext {

void trace(XlaContext& context, const Slice& op, XlaInputs inputs, XlaOutputs outputs) {
  Shape limits = inputs[0].shape();
  Shape starts = limits;
  std::fill(starts.begin(), starts.end(), 0);
  const auto axis = static_cast<std::size_t>(op.axis);
  starts[axis] = op.start;
  limits[axis] = op.start + op.length;
  context.store(outputs[0], context.writer.slice(context.load(inputs[0]), starts, limits));
}

void trace(XlaContext& context, const Concat& op, XlaInputs inputs, XlaOutputs outputs) {
  std::vector<XlaValue> parts;
  for (const Tensor& input : inputs) parts.push_back(context.load(input));
  context.store(outputs[0], context.writer.concatenate(parts, op.axis));
}

void trace(XlaContext& context, const Transpose& op, XlaInputs inputs, XlaOutputs outputs) {
  const std::vector<std::int64_t> permutation(op.permutation.begin(), op.permutation.end());
  context.store(outputs[0], context.writer.transpose(context.load(inputs[0]), permutation));
}

/// An index that is none of a row's is moved to the nearest row: a program cannot fail at its data.
void trace(XlaContext& context, const Take& /*op*/, XlaInputs inputs, XlaOutputs outputs) {
  context.store(outputs[0], context.writer.gather_rows(context.load(inputs[0]), context.load(inputs[1])));
}

}  // namespace maxtext
