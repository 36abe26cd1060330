// Attention in tiles with an online softmax (Milakov and Gimelshein 2018; FlashAttention): per query tile a loop over
// the key tiles that it sees anything of, with running maximum m, sum l and output.
//
// Memory beside inputs and outputs: K and V in original order, once; then one tile of scores and what is made of it.
#include <limits>

#include "engines/xla/attention_layout.h"

namespace maxtext {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Forward {
  const AttentionLayout& layout;
  double scale, softcap;
  XlaValue k, v;  // in original order
};

/// The softmax of a query tile over the keys so far: o = accumulator / l, logsumexp = m + log l.
struct SoftmaxState {
  XlaValue m;            // [rows], −∞ before the first key
  XlaValue l;            // [rows]
  XlaValue accumulator;  // [rows, D]

  std::vector<XlaValue> values() const { return {m, l, accumulator}; }
};

SoftmaxState empty_state(const AttentionLayout& layout, DType dtype) {
  StableHloWriter& writer = layout.writer();
  const std::int64_t rows = layout.sizes().rows();
  return {.m = writer.constant({{rows}, dtype}, -infinity),
          .l = writer.constant({{rows}, dtype}, 0),
          .accumulator = writer.constant({{rows, layout.sizes().head_dim}, dtype}, 0)};
}

SoftmaxState with_keys(const Forward& forward, const XlaValue& q, const VisibleKeys& keys, const SoftmaxState& before) {
  const AttentionLayout& layout = forward.layout;
  StableHloWriter& writer = layout.writer();
  const XlaValue raw =
      attention_scores(writer, q, layout.key_rows(forward.k, keys), forward.scale, forward.softcap).scores;
  const XlaValue scores = writer.select(keys.mask, raw, writer.constant(raw.spec, -infinity));

  SoftmaxState state;
  state.m = writer.binary("maximum", before.m, writer.reduce("maximum", scores, {1}));
  // Where a row has met no key yet 0 takes the place of −∞, so that −∞ − (−∞) cannot occur.
  const XlaValue none = writer.constant(state.m.spec, -infinity);
  const XlaValue shift = writer.select(writer.compare("EQ", state.m, none), writer.constant(state.m.spec, 0), state.m);
  const XlaValue p = writer.unary(
      "exponential", writer.binary("subtract", scores, layout.along_columns(shift, layout.sizes().tile.keys)));
  const XlaValue shrink = writer.unary("exponential", writer.binary("subtract", before.m, shift));
  state.l = writer.binary("add", writer.binary("multiply", before.l, shrink), writer.reduce("add", p, {1}));

  // p is 0 where a key is not seen, but 0 · NaN is not.
  const XlaValue v = layout.rows_where(keys.seen, layout.key_rows(forward.v, keys));
  const XlaValue added =
      writer.dot(writer.convert(p, v.spec.dtype), v, {.lhs_contracting = {1}, .rhs_contracting = {0}}, p.spec.dtype);
  const XlaValue kept =
      writer.binary("multiply", before.accumulator, layout.along_columns(shrink, layout.sizes().head_dim));
  state.accumulator = writer.binary("add", kept, added);
  return state;
}

SoftmaxState over_all_keys(const Forward& forward, const XlaValue& q, const QueryTile& tile) {
  const SoftmaxState empty = empty_state(forward.layout, accumulation_dtype(q.spec.dtype));
  const std::vector<XlaValue> last = forward.layout.for_key_tiles(
      tile, empty.values(), [&](const VisibleKeys& keys, std::span<const XlaValue> values) {
        return with_keys(forward, q, keys, {values[0], values[1], values[2]}).values();
      });
  return {last[0], last[1], last[2]};
}

/// A row without keys has l = 0: o = 0 / 1 and logsumexp = −∞ + log 0.
XlaValue normalised(const AttentionLayout& layout, const SoftmaxState& state) {
  StableHloWriter& writer = layout.writer();
  const XlaValue one = writer.constant(state.l.spec, 1);
  const XlaValue empty = writer.compare("EQ", state.l, writer.constant(state.l.spec, 0));
  const XlaValue divisor = writer.select(empty, one, state.l);
  return writer.binary("divide", state.accumulator, layout.along_columns(divisor, layout.sizes().head_dim));
}

}  // namespace

void trace(XlaContext& context, const AttentionForward& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const AttentionLayout layout(context, inputs, op.kv_heads, op.kv_head_begin);
  const Forward forward{.layout = layout,
                        .scale = op.scale,
                        .softcap = op.softcap,
                        .k = layout.in_original_order(inputs[1]),
                        .v = layout.in_original_order(inputs[2])};
  const XlaValue q = context.load(inputs[0]);
  const std::vector<XlaValue> initial = {context.load(outputs[0]), context.load(outputs[1])};
  const std::vector<XlaValue> last =
      layout.for_query_tiles(initial, [&](const QueryTile& tile, std::span<const XlaValue> values) {
        const SoftmaxState state = over_all_keys(forward, layout.query_rows(q, tile), tile);
        const XlaValue logsumexp = writer.binary("add", state.m, writer.unary("log", state.l));
        return std::vector<XlaValue>{layout.update_query_rows(values[0], normalised(layout, state), tile),
                                     layout.update_row_numbers(values[1], logsumexp, tile)};
      });
  context.store(outputs[0], last[0]);
  context.store(outputs[1], last[1]);
}

}  // namespace maxtext
