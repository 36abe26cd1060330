// Decode attention as a loop over tiles of the cache's slots with an online softmax. The program finds the tiles that
// anybody sees from the lengths, so neither what is before a window nor the unused end of a cache is read, and a tile
// is all that is ever converted or laid out anew: the cache itself is read where it is.
#include <algorithm>
#include <limits>
#include <vector>

#include "engines/xla/attention_state.h"

namespace maxtext {
namespace {

/// Slots of a tile: long ones, since a round of a loop costs accelerators microseconds, but at most so much of the
/// capacity that what is read in vain is an eighth of it.
constexpr std::int64_t kShortestTile = 1024;
constexpr std::int64_t kMostTiles = 8;
/// With batch_invariant: the least capacity, so that a cache which grows for one sequence does not change what is
/// summed together for another.
constexpr std::int64_t kFixedTile = 256;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Sizes {
  std::int64_t batch, queries, query_heads, head_dim;
  std::int64_t kv_heads, capacity;
  std::int64_t group;  // query heads that read one KV head
  std::int64_t rows;   // query rows of a KV head, group · queries
  std::int64_t tile;   // slots
};

std::int64_t tile_of(const DecodeAttention& op, std::int64_t capacity) {
  if (op.batch_invariant) return std::min(capacity, kFixedTile);
  return std::min(capacity, std::max(kShortestTile, (capacity + kMostTiles - 1) / kMostTiles));
}

Sizes sizes_of(const DecodeAttention& op, const Tensor& q, const Tensor& k) {
  Sizes s{};
  s.batch = q.dim(0);
  s.queries = q.dim(1);
  s.query_heads = q.dim(2);
  s.head_dim = q.dim(3);
  s.kv_heads = k.dim(1);
  s.capacity = k.dim(2);
  s.group = s.query_heads / s.kv_heads;
  s.rows = s.group * s.queries;
  s.tile = tile_of(op, s.capacity);
  return s;
}

/// A tile of the cache, and which slots it has.
struct Tile {
  XlaValue k, v;              // [B, kv_heads, tile, D], in the cache's dtype
  XlaValue k_scale, v_scale;  // float32 [B, kv_heads, tile], of int8
  XlaValue slot;              // int32 [tile]
  XlaValue fresh;             // boolean [tile]: not in an earlier tile; undefined where all are
};

/// What a tile adds to: rows are [group, queries] of a KV head.
struct RunningState {
  XlaValue o;     // [B, kv_heads, rows, D]
  XlaValue l, m;  // [B, kv_heads, rows]
};

class Decode {
 public:
  Decode(XlaContext& context, const DecodeAttention& op, XlaInputs inputs)
      : writer_(context.writer), op_(op), s_(sizes_of(op, inputs[0], inputs[1])) {
    k_ = context.load(inputs[1]);
    v_ = context.load(inputs[2]);
    start_ = context.load(inputs[3]);
    length_ = context.load(inputs[4]);
    if (k_.spec.dtype == DType::int8) {
      k_scale_ = context.load(inputs[5]);
      v_scale_ = context.load(inputs[6]);
    }
    pack_queries(context.load(inputs[0]));
    find_seen_positions();
  }

  XlaAttentionState run() {
    const Shape row{s_.batch, s_.kv_heads, s_.rows};
    RunningState state{.o = writer_.constant(q_.spec, 0),
                       .l = writer_.constant({row, DType::float32}, 0),
                       .m = writer_.constant({row, DType::float32}, -kInfinity)};
    const bool one_tile = s_.tile == s_.capacity && !op_.batch_invariant;
    return outputs(one_tile ? add(state, whole()) : over_tiles(state));
  }

 private:
  XlaValue integer(std::int64_t value, const Shape& shape = {}) const {
    return writer_.constant({shape, DType::int32}, static_cast<double>(value));
  }

  /// q · scale [B, T, query_heads, D] -> [B, kv_heads, rows, D].
  void pack_queries(const XlaValue& q) {
    const XlaValue scaled = writer_.binary("multiply", q, writer_.constant(q.spec, op_.scale));
    const XlaValue heads = writer_.reshape(scaled, {s_.batch, s_.queries, s_.kv_heads, s_.group, s_.head_dim});
    q_ = writer_.reshape(writer_.transpose(heads, {0, 2, 3, 1, 4}), {s_.batch, s_.kv_heads, s_.rows, s_.head_dim});
  }

  /// Query row t sees the positions first_[b, t] … last_[b, t]; both ascend with t and leave no gap.
  void find_seen_positions() {
    const Shape rows{s_.batch, s_.queries};
    const auto along = [&](const XlaValue& x) { return writer_.broadcast(x, rows, {0}); };
    const XlaValue t = writer_.iota({rows, DType::int32}, 1);
    last_ = writer_.binary("add", along(length_), writer_.binary("subtract", t, integer(s_.queries, rows)));
    first_ = writer_.binary("maximum", along(start_), integer(0, rows));
    if (op_.window > 0) {
      first_ = writer_.binary("maximum", first_, writer_.binary("subtract", last_, integer(op_.window - 1, rows)));
    }
    if (op_.ring) {
      const XlaValue oldest = writer_.binary("subtract", length_, integer(s_.capacity, {s_.batch}));
      first_ = writer_.binary("maximum", first_, along(oldest));
    }
  }

  /// [B]: the first position that any row sees.
  XlaValue lowest_seen() const { return writer_.reshape(writer_.slice(first_, {0, 0}, {s_.batch, 1}), {s_.batch}); }

  /// Tiles [begin, end) that hold all slots that anybody sees, int32 scalars.
  std::pair<XlaValue, XlaValue> seen_tiles() const {
    const Shape batch{s_.batch};
    const XlaValue zeros = integer(0, batch);
    const XlaValue capacity = integer(s_.capacity, batch);
    const XlaValue end = writer_.binary("minimum", length_, capacity);
    const XlaValue begin = op_.ring ? zeros : lowest_seen();
    const XlaValue any = writer_.compare("LT", lowest_seen(), op_.ring ? length_ : end);
    const XlaValue least = writer_.reduce("minimum", writer_.select(any, begin, capacity), {0});
    const XlaValue most = writer_.reduce("maximum", writer_.select(any, end, zeros), {0});
    const XlaValue rounded_up = writer_.binary("add", most, integer(s_.tile - 1));
    return {writer_.binary("divide", least, integer(s_.tile)), writer_.binary("divide", rounded_up, integer(s_.tile))};
  }

  RunningState over_tiles(const RunningState& state) const {
    const auto [begin, end] = seen_tiles();
    const std::vector<XlaValue> initial{state.o, state.l, state.m};
    const std::vector<XlaValue> last =
        writer_.for_loop(begin, end, initial, [&](const XlaValue& index, std::span<const XlaValue> values) {
          const RunningState next = add({values[0], values[1], values[2]}, tile(index));
          return std::vector<XlaValue>{next.o, next.l, next.m};
        });
    return {last[0], last[1], last[2]};
  }

  Tile whole() const { return {k_, v_, k_scale_, v_scale_, writer_.iota({{s_.capacity}, DType::int32}, 0), {}}; }

  /// The last tile begins earlier where the capacity is not a multiple of a tile's slots.
  Tile tile(const XlaValue& index) const {
    const XlaValue wanted = writer_.binary("multiply", index, integer(s_.tile));
    const XlaValue start = writer_.binary("minimum", wanted, integer(s_.capacity - s_.tile));
    const Shape slots{s_.tile};
    const std::vector<XlaValue> at{integer(0), integer(0), start, integer(0)};
    const Shape sizes{s_.batch, s_.kv_heads, s_.tile, s_.head_dim};
    Tile tile;
    tile.k = writer_.dynamic_slice(k_, at, sizes);
    tile.v = writer_.dynamic_slice(v_, at, sizes);
    if (k_scale_.defined()) {
      const Shape scales{s_.batch, s_.kv_heads, s_.tile};
      tile.k_scale = writer_.dynamic_slice(k_scale_, std::span(at).first(3), scales);
      tile.v_scale = writer_.dynamic_slice(v_scale_, std::span(at).first(3), scales);
    }
    tile.slot = writer_.binary("add", writer_.iota({slots, DType::int32}, 0), writer_.broadcast(start, slots, {}));
    if (s_.capacity % s_.tile != 0) tile.fresh = writer_.compare("GE", tile.slot, writer_.broadcast(wanted, slots, {}));
    return tile;
  }

  /// int32 [B, tile]: the position that lies in each slot. In a ring the newest one that does, or a negative one.
  XlaValue positions(const XlaValue& slot) const {
    const Shape shape{s_.batch, s_.tile};
    XlaValue slots = writer_.broadcast(slot, shape, {1});
    if (!op_.ring) return slots;
    const XlaValue newest = writer_.broadcast(writer_.binary("subtract", length_, integer(1, {s_.batch})), shape, {0});
    const XlaValue capacity = integer(s_.capacity, shape);
    const XlaValue rest = writer_.binary("remainder", writer_.binary("subtract", newest, slots), capacity);
    const XlaValue is_negative = writer_.compare("LT", rest, integer(0, shape));
    const XlaValue back = writer_.select(is_negative, writer_.binary("add", rest, capacity), rest);
    return writer_.binary("subtract", newest, back);
  }

  XlaValue also_fresh(const XlaValue& condition, const Tile& tile) const {
    if (!tile.fresh.defined()) return condition;
    const std::int64_t slots = std::ssize(condition.spec.shape) - 1;
    return writer_.binary("and", condition, writer_.broadcast(tile.fresh, condition.spec.shape, {slots}));
  }

  /// boolean [B, kv_heads, rows, tile].
  XlaValue visible(const Tile& tile, const XlaValue& position) const {
    const Shape shape{s_.batch, s_.queries, s_.tile};
    const XlaValue at = writer_.broadcast(position, shape, {0, 2});
    const XlaValue seen =
        also_fresh(writer_.binary("and", writer_.compare("GE", at, writer_.broadcast(first_, shape, {0, 1})),
                                  writer_.compare("LE", at, writer_.broadcast(last_, shape, {0, 1}))),
                   tile);
    return writer_.reshape(writer_.broadcast(seen, {s_.batch, s_.kv_heads, s_.group, s_.queries, s_.tile}, {0, 3, 4}),
                           {s_.batch, s_.kv_heads, s_.rows, s_.tile});
  }

  /// boolean [B, tile]: seen by some row.
  XlaValue seen_by_any(const Tile& tile, const XlaValue& position) const {
    const auto along = [&](const XlaValue& x) { return writer_.broadcast(x, position.spec.shape, {0}); };
    return also_fresh(writer_.binary("and", writer_.compare("GE", position, along(lowest_seen())),
                                     writer_.compare("LT", position, along(length_))),
                      tile);
  }

  XlaValue scores(const Tile& tile, const XlaValue& is_visible) const {
    XlaValue s =
        writer_.dot(q_, writer_.convert(tile.k, DType::float32),
                    {.lhs_batch = {0, 1}, .rhs_batch = {0, 1}, .lhs_contracting = {3}, .rhs_contracting = {3}});
    if (tile.k_scale.defined()) {
      s = writer_.binary("multiply", s, writer_.broadcast(tile.k_scale, s.spec.shape, {0, 1, 3}));
    }
    if (op_.softcap > 0) {
      const XlaValue cap = writer_.constant(s.spec, op_.softcap);
      s = writer_.binary("multiply", cap, writer_.unary("tanh", writer_.binary("divide", s, cap)));
    }
    return writer_.select(is_visible, s, writer_.constant(s.spec, -kInfinity));
  }

  /// p · v; values (scales) that no row sees may be NaN and are left out.
  XlaValue weighted_values(const Tile& tile, const XlaValue& position, XlaValue p, const XlaValue& is_visible) const {
    XlaValue v = writer_.convert(tile.v, DType::float32);
    if (tile.v_scale.defined()) {
      const XlaValue scaled = writer_.binary("multiply", p, writer_.broadcast(tile.v_scale, p.spec.shape, {0, 1, 3}));
      p = writer_.select(is_visible, scaled, writer_.constant(p.spec, 0));
    } else {
      const XlaValue seen = writer_.broadcast(seen_by_any(tile, position), v.spec.shape, {0, 2});
      v = writer_.select(seen, v, writer_.constant(v.spec, 0));
    }
    return writer_.dot(p, v,
                       {.lhs_batch = {0, 1}, .rhs_batch = {0, 1}, .lhs_contracting = {3}, .rhs_contracting = {2}});
  }

  RunningState add(const RunningState& state, const Tile& tile) const {
    const XlaValue position = positions(tile.slot);
    const XlaValue is_visible = visible(tile, position);
    const XlaValue s = scores(tile, is_visible);
    RunningState next;
    next.m = writer_.binary("maximum", state.m, writer_.reduce("maximum", s, {3}));
    const XlaValue kept = weight_of(writer_, state.m, next.m);
    const XlaValue shift = writer_.broadcast(subtrahend(writer_, next.m), s.spec.shape, {0, 1, 2});
    const XlaValue p = writer_.unary("exponential", writer_.binary("subtract", s, shift));
    next.l = writer_.binary("add", writer_.binary("multiply", state.l, kept), writer_.reduce("add", p, {3}));
    const XlaValue old = writer_.binary("multiply", state.o, writer_.broadcast(kept, state.o.spec.shape, {0, 1, 2}));
    next.o = writer_.binary("add", old, weighted_values(tile, position, p, is_visible));
    return next;
  }

  XlaAttentionState outputs(const RunningState& state) const {
    const XlaValue heads = writer_.reshape(state.o, {s_.batch, s_.kv_heads, s_.group, s_.queries, s_.head_dim});
    const Shape residual{s_.batch, s_.query_heads, s_.queries};
    return {
        writer_.reshape(writer_.transpose(heads, {0, 3, 1, 2, 4}), {s_.batch, s_.queries, s_.query_heads, s_.head_dim}),
        writer_.reshape(state.l, residual), writer_.reshape(state.m, residual)};
  }

  StableHloWriter& writer_;
  const DecodeAttention& op_;
  Sizes s_;
  XlaValue k_, v_, k_scale_, v_scale_;
  XlaValue start_, length_;  // int32 [B]
  XlaValue q_;
  XlaValue first_, last_;  // int32 [B, T]
};

}  // namespace

void trace(XlaContext& context, const DecodeAttention& op, XlaInputs inputs, XlaOutputs outputs) {
  const std::size_t sinks = inputs[1].dtype() == DType::int8 ? 7 : 5;
  store_state(context, Decode(context, op, inputs).run(), op.has_sinks ? std::optional(inputs[sinks]) : std::nullopt,
              op.normalize, outputs);
}

}  // namespace maxtext
