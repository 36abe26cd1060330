// Backward attention in one pass of five products a tile (FlashAttention-2): per query tile a loop over the key tiles
// that it sees anything of, which carries dq and adds to dk and dv in place.
//
// Memory beside inputs and outputs: K, V, dk and dv in original order; then one tile of scores and what is made of it.
#include "engines/xla/attention_layout.h"

namespace maxtext {
namespace {

struct Backward {
  const AttentionLayout& layout;
  double scale, softcap;
  XlaValue k, v;  // in original order
};

/// Of a query tile: zeros in rows without keys, which may hold NaN.
struct QuerySide {
  XlaValue q, d_o;  // [rows, D]
  /// The same without rows that the tile before has had, which must not add to dk and dv again.
  XlaValue new_q, new_d_o;
  XlaValue logsumexp;  // [rows]
  XlaValue delta;      // rowsum(do ∘ o) [rows]
};

/// What the key loop carries: dq of the tile [rows, D]; dk and dv of all keys in original order.
struct Gradients {
  XlaValue dq, dk, dv;

  std::vector<XlaValue> values() const { return {dq, dk, dv}; }
};

/// q, do, o [B, T, query_heads, D], logsumexp [B, query_heads, T].
struct QueryInputs {
  XlaValue q, o, logsumexp, d_o;
};

QuerySide query_side(const AttentionLayout& layout, const QueryInputs& inputs, const QueryTile& tile) {
  StableHloWriter& writer = layout.writer();
  const DType dtype = inputs.logsumexp.spec.dtype;
  const auto rows = [&](const XlaValue& x) { return layout.rows_where(tile.has_keys, layout.query_rows(x, tile)); };
  QuerySide side;
  side.q = rows(inputs.q);
  side.d_o = rows(inputs.d_o);
  side.new_q = layout.rows_where(tile.is_new, side.q);
  side.new_d_o = layout.rows_where(tile.is_new, side.d_o);
  side.logsumexp = layout.rows_where(tile.has_keys, layout.row_numbers(inputs.logsumexp, tile));
  const XlaValue products =
      writer.binary("multiply", writer.convert(rows(inputs.o), dtype), writer.convert(side.d_o, dtype));
  side.delta = writer.reduce("add", products, {1});
  return side;
}

/// p = exp(s − logsumexp), 0 where the mask says so, and ds = p ∘ (do·vᵀ − Δ) · scale (· slope): [rows, tile.keys].
struct Probabilities {
  XlaValue p, ds;
};

Probabilities probabilities(const Backward& backward, const QuerySide& side, const VisibleKeys& keys, const XlaValue& k,
                            const XlaValue& v) {
  const AttentionLayout& layout = backward.layout;
  StableHloWriter& writer = layout.writer();
  const std::int64_t columns = layout.sizes().tile.keys;
  const AttentionScores s = attention_scores(writer, side.q, k, backward.scale, backward.softcap);
  const XlaValue exponentials =
      writer.unary("exponential", writer.binary("subtract", s.scores, layout.along_columns(side.logsumexp, columns)));
  Probabilities result;
  result.p = writer.select(keys.mask, exponentials, writer.constant(exponentials.spec, 0));
  const XlaValue dp =
      writer.dot(side.d_o, v, {.lhs_contracting = {1}, .rhs_contracting = {1}}, exponentials.spec.dtype);
  const XlaValue difference = writer.binary("subtract", dp, layout.along_columns(side.delta, columns));
  result.ds = writer.binary("multiply", writer.binary("multiply", result.p, difference),
                            writer.constant(dp.spec, backward.scale));
  if (s.slope.defined()) result.ds = writer.binary("multiply", result.ds, s.slope);
  return result;
}

Gradients with_keys(const Backward& backward, const QuerySide& side, const VisibleKeys& keys, const Gradients& before) {
  const AttentionLayout& layout = backward.layout;
  StableHloWriter& writer = layout.writer();
  // p and ds are 0 where a key is not seen, but 0 · NaN is not.
  const XlaValue k = layout.rows_where(keys.seen, layout.key_rows(backward.k, keys));
  const XlaValue v = layout.rows_where(keys.seen, layout.key_rows(backward.v, keys));
  const Probabilities found = probabilities(backward, side, keys, k, v);
  const DType sum = found.p.spec.dtype;
  const XlaValue p = writer.convert(found.p, k.spec.dtype);
  const XlaValue ds = writer.convert(found.ds, k.spec.dtype);
  const auto add_to_keys = [&](const XlaValue& gradient, const XlaValue& left, const XlaValue& right) {
    const XlaValue added = writer.dot(left, right, {.lhs_contracting = {0}, .rhs_contracting = {0}}, sum);
    return layout.update_key_rows(gradient, writer.binary("add", layout.key_rows(gradient, keys), added), keys);
  };
  const XlaValue dq = writer.dot(ds, k, {.lhs_contracting = {1}, .rhs_contracting = {0}}, sum);
  return {.dq = writer.binary("add", before.dq, dq),
          .dk = add_to_keys(before.dk, ds, side.new_q),
          .dv = add_to_keys(before.dv, p, side.new_d_o)};
}

}  // namespace

void trace(XlaContext& context, const AttentionBackward& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const AttentionLayout layout(context, inputs, op.kv_heads, op.kv_head_begin);
  const AttentionSizes& sizes = layout.sizes();
  const Backward backward{.layout = layout,
                          .scale = op.scale,
                          .softcap = op.softcap,
                          .k = layout.in_original_order(inputs[1]),
                          .v = layout.in_original_order(inputs[2])};
  const QueryInputs queries{.q = context.load(inputs[0]),
                            .o = context.load(inputs[6]),
                            .logsumexp = context.load(inputs[7]),
                            .d_o = context.load(inputs[8])};
  const DType sum = accumulation_dtype(inputs[0].dtype());
  const XlaValue no_gradient =
      writer.constant({{sizes.batch, sizes.heads, sizes.padded_keys(), sizes.head_dim}, sum}, 0);
  const XlaValue no_dq = writer.constant({{sizes.rows(), sizes.head_dim}, sum}, 0);
  const std::vector<XlaValue> initial = {context.load(outputs[0]), no_gradient, no_gradient};
  const std::vector<XlaValue> last =
      layout.for_query_tiles(initial, [&](const QueryTile& tile, std::span<const XlaValue> values) {
        const QuerySide side = query_side(layout, queries, tile);
        const std::vector<XlaValue> found = layout.for_key_tiles(
            tile, Gradients{no_dq, values[1], values[2]}.values(),
            [&](const VisibleKeys& keys, std::span<const XlaValue> carried) {
              return with_keys(backward, side, keys, {carried[0], carried[1], carried[2]}).values();
            });
        return std::vector<XlaValue>{layout.update_query_rows(values[0], found[0], tile), found[1], found[2]};
      });
  context.store(outputs[0], last[0]);
  context.store(outputs[1], layout.in_gathered_order(last[1]));
  context.store(outputs[2], layout.in_gathered_order(last[2]));
}

}  // namespace maxtext
