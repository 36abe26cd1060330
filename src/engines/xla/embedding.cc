#include <numeric>
#include <vector>

#include "engines/xla/rounding.h"
#include "engines/xla/trace.h"

namespace maxtext {
namespace {

/// Rows of a table that may be a part of a larger one: where they are for ids, and which ids it has.
struct TableRows {
  XlaValue rows;  // [ids...], within the table
  XlaValue here;  // boolean [ids...]; undefined where the table is whole
};

TableRows table_rows(XlaContext& context, const Tensor& ids, XlaInputs inputs, std::size_t at, std::int64_t count) {
  StableHloWriter& writer = context.writer;
  const XlaValue values = context.load(ids);
  if (inputs.size() <= at) return {values, {}};
  const XlaValue first = writer.broadcast(context.load(inputs[at]), values.spec.shape, {});
  const XlaValue rows = writer.binary("subtract", values, first);
  const XlaValue zero = writer.constant(rows.spec, 0);
  const XlaValue end = writer.constant(rows.spec, static_cast<double>(count));
  const XlaValue here = writer.binary("and", writer.compare("GE", rows, zero), writer.compare("LT", rows, end));
  return {writer.select(here, rows, zero), here};
}

/// `values` [ids..., E], zeros for ids that the table has not.
XlaValue masked(StableHloWriter& writer, const TableRows& rows, const XlaValue& values) {
  if (!rows.here.defined()) return values;
  std::vector<std::int64_t> dimensions(rows.here.spec.shape.size());
  std::iota(dimensions.begin(), dimensions.end(), 0);
  const XlaValue mask = writer.broadcast(rows.here, values.spec.shape, dimensions);
  return writer.select(mask, values, writer.constant(values.spec, 0));
}

}  // namespace

void trace(XlaContext& context, const Embedding& /*op*/, XlaInputs inputs, XlaOutputs outputs) {
  const TableRows rows = table_rows(context, inputs[1], inputs, 2, inputs[0].dim(0));
  const XlaValue found = context.writer.gather_rows(context.load(inputs[0]), rows.rows);
  store_rounded(context, outputs[0], masked(context.writer, rows, found));
}

void trace(XlaContext& context, const EmbeddingBackward& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const XlaValue start = op.accumulate ? context.load(inputs[2]) : writer.constant(inputs[2].spec(), 0);
  const TableRows rows = table_rows(context, inputs[1], inputs, 3, inputs[2].dim(0));
  const XlaValue dy = masked(writer, rows, writer.convert(context.load(inputs[0]), inputs[2].dtype()));
  context.store(outputs[0], writer.scatter_add_rows(start, rows.rows, dy));
}

}  // namespace maxtext
