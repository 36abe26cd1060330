// Coalesced collectives: the inputs travel joined to one [P, n] or [n] array, so that the program has as many
// collectives as the plan counts. A single one travels as a flat array: one of two dimensions would be stored in tiles
// and copied from and to its flat form.
#include "engines/xla/trace.h"

namespace maxtext {
namespace {

/// The inputs as [rows, n_i], joined along n.
XlaValue join(XlaContext& context, std::string_view op, XlaInputs inputs, std::int64_t rows) {
  std::vector<XlaValue> parts;
  for (const Tensor& input : inputs) {
    if (input.dtype() != inputs[0].dtype()) {
      fail("xla: {} of {} and {} in one message is not supported", op, to_string(inputs[0].spec()),
           to_string(input.spec()));
    }
    parts.push_back(context.writer.reshape(context.load(input), {rows, input.elements() / rows}));
  }
  return context.writer.concatenate(parts, 1);
}

/// The outputs from [rows, Σ n_i].
void split(XlaContext& context, const XlaValue& joined, std::int64_t rows, XlaOutputs outputs) {
  std::int64_t begin = 0;
  for (Tensor& output : outputs) {
    const std::int64_t end = begin + output.elements() / rows;
    const XlaValue part = outputs.size() == 1 ? joined : context.writer.slice(joined, {0, begin}, {rows, end});
    context.store(output, context.writer.reshape(part, output.shape()));
    begin = end;
  }
}

}  // namespace

void trace(XlaContext& context, const AllGather& op, XlaInputs inputs, XlaOutputs outputs) {
  if (inputs.size() == 1) {
    const XlaValue flat = context.writer.reshape(context.load(inputs[0]), {inputs[0].elements()});
    const XlaValue all = context.writer.all_gather(flat, context.groups(op.axes));
    return context.store(outputs[0], context.writer.reshape(all, outputs[0].shape()));
  }
  const XlaValue mine = join(context, op.name, inputs, 1);
  split(context, context.writer.all_gather(mine, context.groups(op.axes)), op.group_size, outputs);
}

void trace(XlaContext& context, const ReduceScatter& op, XlaInputs inputs, XlaOutputs outputs) {
  if (inputs.size() == 1) {
    const XlaValue flat = context.writer.reshape(context.load(inputs[0]), {inputs[0].elements()});
    const XlaValue mine = context.writer.reduce_scatter(flat, context.groups(op.axes));
    return context.store(outputs[0], context.writer.reshape(mine, outputs[0].shape()));
  }
  const XlaValue all = join(context, op.name, inputs, op.group_size);
  split(context, context.writer.reduce_scatter(all, context.groups(op.axes)), 1, outputs);
}

void trace(XlaContext& context, const AllReduce& op, XlaInputs inputs, XlaOutputs outputs) {
  const std::string_view combiner = op.reduce == ReduceOp::sum ? "add" : "maximum";
  if (inputs.size() == 1) {
    const XlaValue flat = context.writer.reshape(context.load(inputs[0]), {inputs[0].elements()});
    const XlaValue sum = context.writer.all_reduce(combiner, flat, context.groups(op.axes));
    return context.store(outputs[0], context.writer.reshape(sum, outputs[0].shape()));
  }
  const XlaValue mine = join(context, op.name, inputs, 1);
  split(context, context.writer.all_reduce(combiner, mine, context.groups(op.axes)), 1, outputs);
}

}  // namespace maxtext
