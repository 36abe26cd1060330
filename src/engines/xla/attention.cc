// Attention with dense scores [B, heads, T, query heads of a group, J], J = P·T_kv: small sizes only. At real sizes XLA
// keeps whole score blocks in memory, so a loop over blocks or the device's own kernel has to take this place.
#include <limits>

#include "engines/xla/trace.h"

namespace maxtext {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Sizes {
  std::int64_t batch, queries, query_heads, head_dim;
  std::int64_t devices, keys_per_device, heads;  // heads: KV heads of this group
  std::int64_t keys;                             // J
  std::int64_t queries_per_key;                  // query heads that read one KV head
  std::int64_t first_query_head;

  Shape scores() const { return {batch, heads, queries, queries_per_key, keys}; }
};

struct Core {
  Sizes size;
  XlaValue q;        // [B, T, heads, G, D]
  XlaValue k, v;     // [B, J, heads, D], zero where no query looks
  XlaValue visible;  // boolean, scores
  XlaValue scores;   // scale·q·kᵀ (soft-capped), −∞ where not visible
  XlaValue slope;    // 1 − (s/softcap)², with a softcap only
};

// Pairs of dimensions of the products between scores [B,h,T,G,J], queries [B,T,h,G,D] and keys [B,J,h,D].
const DotDimensions kQueriesKeys{{0, 2}, {0, 2}, {4}, {3}};          // -> [B,h,T,G,J]
const DotDimensions kScoresKeys{{0, 1}, {0, 2}, {4}, {1}};           // -> [B,h,T,G,D]
const DotDimensions kScoresQueries{{0, 1}, {0, 2}, {2, 3}, {1, 3}};  // -> [B,h,J,D]

Sizes sizes(XlaInputs inputs, std::int64_t kv_heads, std::int64_t kv_head_begin) {
  Sizes s{};
  s.batch = inputs[0].dim(0);
  s.queries = inputs[0].dim(1);
  s.query_heads = inputs[0].dim(2);
  s.head_dim = inputs[0].dim(3);
  s.devices = inputs[1].dim(0);
  s.keys_per_device = inputs[1].dim(2);
  s.heads = inputs[1].dim(3);
  s.keys = s.devices * s.keys_per_device;
  s.queries_per_key = s.query_heads / kv_heads;
  s.first_query_head = kv_head_begin * s.queries_per_key;
  return s;
}

/// The heads of this group of [B, T, query_heads, D] as [B, T, heads, G, D], in the accumulation dtype.
XlaValue query_group(XlaContext& context, const Sizes& s, const Tensor& tensor) {
  StableHloWriter& writer = context.writer;
  const std::int64_t end = s.first_query_head + s.heads * s.queries_per_key;
  const XlaValue x = writer.convert(context.load(tensor), accumulation_dtype(tensor.dtype()));
  return writer.reshape(writer.slice(x, {0, 0, s.first_query_head, 0}, {s.batch, s.queries, end, s.head_dim}),
                        {s.batch, s.queries, s.heads, s.queries_per_key, s.head_dim});
}

/// [P, B, T_kv, heads, D] -> [B, J, heads, D], with zeros where `seen` [B, J] is false: padding may hold NaN.
XlaValue gathered(XlaContext& context, const Sizes& s, const Tensor& tensor, const XlaValue& seen) {
  StableHloWriter& writer = context.writer;
  const XlaValue x = writer.convert(context.load(tensor), accumulation_dtype(tensor.dtype()));
  const XlaValue joined = writer.reshape(writer.transpose(x, {1, 0, 2, 3, 4}), {s.batch, s.keys, s.heads, s.head_dim});
  return writer.select(writer.broadcast(seen, joined.spec.shape, {0, 1}), joined, writer.constant(joined.spec, 0));
}

/// Whether query i sees what lies in gathered slot s, [B, T, J] of 0 and 1. Intervals speak of original tokens j, so
/// the interval mask [B, T, j] is multiplied with the permutation matrix slots[j] == s, which is exact.
XlaValue visible_slots(XlaContext& context, const Sizes& s, XlaInputs inputs, DType dtype) {
  StableHloWriter& writer = context.writer;
  const Shape shape{s.batch, s.queries, s.keys};
  const XlaValue token = writer.iota({shape, DType::int32}, 2);
  const XlaValue after_begin = writer.compare("GE", token, writer.broadcast(context.load(inputs[4]), shape, {0, 1}));
  const XlaValue before_end = writer.compare("LT", token, writer.broadcast(context.load(inputs[5]), shape, {0, 1}));
  const XlaValue in_interval = writer.convert(writer.binary("and", after_begin, before_end), dtype);
  const Shape square{s.batch, s.keys, s.keys};
  const XlaValue slot = writer.broadcast(context.load(inputs[3]), square, {0, 1});
  const XlaValue permutation =
      writer.convert(writer.compare("EQ", slot, writer.iota({square, DType::int32}, 2)), dtype);
  return writer.dot(in_interval, permutation,
                    {.lhs_batch = {0}, .rhs_batch = {0}, .lhs_contracting = {2}, .rhs_contracting = {1}});
}

XlaValue is_positive(StableHloWriter& writer, const XlaValue& x) {
  return writer.compare("GT", x, writer.constant(x.spec, 0));
}

/// x = softcap·tanh(x/softcap); returns the slope 1 − tanh².
XlaValue apply_softcap(StableHloWriter& writer, double softcap, XlaValue& x) {
  const XlaValue cap = writer.constant(x.spec, softcap);
  const XlaValue tangent = writer.unary("tanh", writer.binary("divide", x, cap));
  x = writer.binary("multiply", cap, tangent);
  return writer.binary("subtract", writer.constant(x.spec, 1), writer.binary("multiply", tangent, tangent));
}

template <typename AttentionOp>
Core core(XlaContext& context, const AttentionOp& op, XlaInputs inputs) {
  StableHloWriter& writer = context.writer;
  const DType dtype = accumulation_dtype(inputs[0].dtype());
  Core c{.size = sizes(inputs, op.kv_heads, op.kv_head_begin),
         .q = {},
         .k = {},
         .v = {},
         .visible = {},
         .scores = {},
         .slope = {}};
  const XlaValue visible = visible_slots(context, c.size, inputs, dtype);
  const XlaValue seen = is_positive(writer, writer.reduce("maximum", visible, {1}));
  c.q = query_group(context, c.size, inputs[0]);
  c.k = gathered(context, c.size, inputs[1], seen);
  c.v = gathered(context, c.size, inputs[2], seen);
  c.visible = writer.broadcast(is_positive(writer, visible), c.size.scores(), {0, 2, 4});
  const XlaValue products = writer.dot(c.q, c.k, kQueriesKeys);
  XlaValue scaled = writer.binary("multiply", products, writer.constant(products.spec, op.scale));
  if (op.softcap > 0) c.slope = apply_softcap(writer, op.softcap, scaled);
  c.scores = writer.select(c.visible, scaled, writer.constant(scaled.spec, -kInfinity));
  return c;
}

XlaValue along_keys(StableHloWriter& writer, const XlaValue& per_row, const Core& c) {
  return writer.broadcast(per_row, c.size.scores(), {0, 1, 2, 3});
}

/// `x` where it is finite or +∞, 0 where it is −∞: so that −∞ − (−∞) cannot occur.
XlaValue without_minus_infinity(StableHloWriter& writer, const XlaValue& x) {
  const XlaValue empty = writer.compare("EQ", x, writer.constant(x.spec, -kInfinity));
  return writer.select(empty, writer.constant(x.spec, 0), x);
}

/// Writes [B, heads, T, G, D] to the heads of this group of `output` [B, T, query_heads, D]; the others stay as they
/// are in `previous`.
void store_group(XlaContext& context, const Sizes& s, const XlaValue& group, const Tensor& output) {
  StableHloWriter& writer = context.writer;
  const XlaValue heads = writer.convert(writer.reshape(writer.transpose(group, {0, 2, 1, 3, 4}),
                                                       {s.batch, s.queries, s.heads * s.queries_per_key, s.head_dim}),
                                        output.dtype());
  const bool all = heads.spec == output.spec();
  context.store(output, all ? heads : writer.update_slice(context.load(output), heads, {0, 0, s.first_query_head, 0}));
}

/// [B, heads, T, G] -> the heads of this group of `output` [B, query_heads, T].
void store_logsumexp(XlaContext& context, const Sizes& s, const XlaValue& group, const Tensor& output) {
  StableHloWriter& writer = context.writer;
  const XlaValue heads =
      writer.reshape(writer.transpose(group, {0, 1, 3, 2}), {s.batch, s.heads * s.queries_per_key, s.queries});
  const bool all = heads.spec == output.spec();
  context.store(output, all ? heads : writer.update_slice(context.load(output), heads, {0, s.first_query_head, 0}));
}

/// [B, query_heads, T] -> [B, heads, T, G] of this group.
XlaValue load_logsumexp(XlaContext& context, const Sizes& s, const Tensor& tensor) {
  StableHloWriter& writer = context.writer;
  const std::int64_t end = s.first_query_head + s.heads * s.queries_per_key;
  const XlaValue heads = writer.slice(context.load(tensor), {0, s.first_query_head, 0}, {s.batch, end, s.queries});
  return writer.transpose(writer.reshape(heads, {s.batch, s.heads, s.queries_per_key, s.queries}), {0, 1, 3, 2});
}

/// [B, heads, J, D] -> `output` [P, B, T_kv, heads, D].
void store_key_gradient(XlaContext& context, const Sizes& s, const XlaValue& gradient, const Tensor& output) {
  StableHloWriter& writer = context.writer;
  const XlaValue split = writer.reshape(gradient, {s.batch, s.heads, s.devices, s.keys_per_device, s.head_dim});
  context.store(output, writer.convert(writer.transpose(split, {2, 0, 3, 1, 4}), output.dtype()));
}

}  // namespace

void trace(XlaContext& context, const AttentionForward& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const Core c = core(context, op, inputs);
  const XlaValue maximum = without_minus_infinity(writer, writer.reduce("maximum", c.scores, {4}));
  const XlaValue p = writer.unary("exponential", writer.binary("subtract", c.scores, along_keys(writer, maximum, c)));
  const XlaValue l = writer.reduce("add", p, {4});
  // A row without keys: l = 0, so logsumexp = log 0 = −∞, and o = 0 / 1.
  store_logsumexp(context, c.size, writer.binary("add", writer.unary("log", l), maximum), outputs[1]);
  const XlaValue divisor = writer.select(is_positive(writer, l), l, writer.constant(l.spec, 1));
  const XlaValue o = writer.dot(p, c.v, kScoresKeys);
  store_group(context, c.size, writer.binary("divide", o, writer.broadcast(divisor, o.spec.shape, {0, 1, 2, 3})),
              outputs[0]);
}

void trace(XlaContext& context, const AttentionBackward& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const Core c = core(context, op, inputs);
  const XlaValue logsumexp = without_minus_infinity(writer, load_logsumexp(context, c.size, inputs[7]));
  const XlaValue p = writer.unary("exponential", writer.binary("subtract", c.scores, along_keys(writer, logsumexp, c)));
  const XlaValue o = query_group(context, c.size, inputs[6]);
  const XlaValue d_o = query_group(context, c.size, inputs[8]);
  // Δ [B, T, heads, G] -> [B, heads, T, G].
  const XlaValue delta = writer.transpose(writer.reduce("add", writer.binary("multiply", o, d_o), {4}), {0, 2, 1, 3});
  const XlaValue dp = writer.dot(d_o, c.v, kQueriesKeys);
  const XlaValue difference = writer.binary("subtract", dp, along_keys(writer, delta, c));
  XlaValue ds = writer.binary("multiply", writer.binary("multiply", p, difference), writer.constant(p.spec, op.scale));
  if (op.softcap > 0) ds = writer.binary("multiply", ds, c.slope);
  store_group(context, c.size, writer.dot(ds, c.k, kScoresKeys), outputs[0]);
  store_key_gradient(context, c.size, writer.dot(ds, c.q, kScoresQueries), outputs[1]);
  store_key_gradient(context, c.size, writer.dot(p, d_o, kScoresQueries), outputs[2]);
}

}  // namespace maxtext
