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

}  // namespace maxtext
