#include "engines/xla/attention_layout.h"

#include <limits>

namespace maxtext {
namespace {

TensorSpec index_spec(const Shape& shape) { return {shape, DType::int32}; }

AttentionSizes sizes_of(const Shape& q, const Shape& k, std::int64_t kv_heads, std::int64_t kv_head_begin) {
  const std::int64_t group = q[2] / kv_heads;
  return {.batch = q[0],
          .queries = q[1],
          .query_heads = q[2],
          .head_dim = q[3],
          .devices = k[0],
          .keys_per_device = k[2],
          .heads = k[3],
          .group = group,
          .first_query_head = kv_head_begin * group,
          .tile = attention_tiles(q[1], k[0] * k[2], group)};
}

}  // namespace

AttentionLayout::AttentionLayout(XlaContext& context, XlaInputs inputs, std::int64_t kv_heads,
                                 std::int64_t kv_head_begin)
    : context_(context),
      sizes_(sizes_of(inputs[0].shape(), inputs[1].shape(), kv_heads, kv_head_begin)),
      slots_(context.load(inputs[3])),
      key_begin_(context.load(inputs[4])),
      key_end_(context.load(inputs[5])) {}

XlaValue AttentionLayout::index(std::int64_t value) const {
  return writer().constant(index_spec({}), static_cast<double>(value));
}

/// For original token j of batch row b, the row of [P·B·T_kv, heads, D] where it lies: int32 [B, keys].
XlaValue AttentionLayout::slot_rows() const {
  const auto all = [&](std::int64_t value) { return writer().constant(slots_.spec, static_cast<double>(value)); };
  const XlaValue device = writer().binary("divide", slots_, all(sizes_.keys_per_device));
  const XlaValue slot = writer().binary("remainder", slots_, all(sizes_.keys_per_device));
  const XlaValue device_row =
      writer().binary("add", writer().binary("multiply", device, all(sizes_.batch)), writer().iota(slots_.spec, 0));
  return writer().binary("add", writer().binary("multiply", device_row, all(sizes_.keys_per_device)), slot);
}

XlaValue AttentionLayout::in_original_order(const Tensor& keys) const {
  std::vector<XlaValue> rows = {slot_rows()};
  if (const std::int64_t padding = sizes_.padded_keys() - sizes_.keys(); padding > 0) {
    // Any row does: no query sees it.
    rows.push_back(writer().constant(index_spec({sizes_.batch, padding}), 0));
  }
  const XlaValue table = writer().reshape(
      context_.load(keys), {sizes_.devices * sizes_.batch * sizes_.keys_per_device, sizes_.heads, sizes_.head_dim});
  return writer().transpose(writer().gather_rows(table, writer().concatenate(rows, 1)), {0, 2, 1, 3});
}

XlaValue AttentionLayout::in_gathered_order(const XlaValue& gradient) const {
  // Only numbers of rows are scattered: a gather of wide rows is parallel on every device and needs no zeroed target.
  const XlaValue row = writer().iota(slots_.spec, 0);
  const XlaValue first =
      writer().binary("multiply", row, writer().constant(row.spec, static_cast<double>(sizes_.padded_keys())));
  const XlaValue source = writer().binary("add", first, writer().iota(slots_.spec, 1));
  const XlaValue nowhere = writer().constant(index_spec({slots_.spec.elements()}), 0);
  const XlaValue sources = writer().scatter_add_rows(nowhere, slot_rows(), source);
  const XlaValue table = writer().reshape(writer().transpose(gradient, {0, 2, 1, 3}),
                                          {sizes_.batch * sizes_.padded_keys(), sizes_.heads, sizes_.head_dim});
  return writer().reshape(writer().gather_rows(table, sources),
                          {sizes_.devices, sizes_.batch, sizes_.keys_per_device, sizes_.heads, sizes_.head_dim});
}

/// [tile.queries] -> [rows].
XlaValue AttentionLayout::per_row(const XlaValue& per_query) const {
  return writer().reshape(writer().broadcast(per_query, {sizes_.tile.queries, sizes_.group}, {0}), {sizes_.rows()});
}

QueryTile AttentionLayout::query_tile(const XlaValue& batch, const XlaValue& kv_head, const XlaValue& number) const {
  StableHloWriter& w = writer();
  const std::int64_t length = sizes_.tile.queries;
  const XlaValue wanted = w.binary("multiply", number, index(length));
  QueryTile tile;
  tile.batch = batch;
  tile.kv_head = kv_head;
  tile.query = w.binary("minimum", wanted, index(sizes_.queries - length));
  tile.query_head = w.binary("add", w.binary("multiply", kv_head, index(sizes_.group)), index(sizes_.first_query_head));
  const std::vector<XlaValue> starts = {batch, tile.query};
  tile.begin = w.reshape(w.dynamic_slice(key_begin_, starts, {1, length}), {length});
  tile.end = w.reshape(w.dynamic_slice(key_end_, starts, {1, length}), {length});

  const XlaValue has_keys = w.compare("LT", tile.begin, tile.end);
  tile.has_keys = per_row(has_keys);
  const XlaValue query = w.binary("add", w.iota(tile.begin.spec, 0), w.broadcast(tile.query, {length}, {}));
  tile.is_new = per_row(w.compare("GE", query, w.broadcast(wanted, {length}, {})));

  // Without any key the first tile is beyond the last.
  const XlaValue beyond = w.constant(tile.begin.spec, static_cast<double>(sizes_.padded_keys()));
  const XlaValue first = w.reduce("minimum", w.select(has_keys, tile.begin, beyond), {0});
  const XlaValue end = w.reduce("maximum", w.select(has_keys, tile.end, w.constant(tile.end.spec, 0)), {0});
  tile.first_key_tile = w.binary("divide", first, index(sizes_.tile.keys));
  tile.end_key_tile = w.binary("divide", w.binary("add", end, index(sizes_.tile.keys - 1)), index(sizes_.tile.keys));
  return tile;
}

std::vector<XlaValue> AttentionLayout::for_query_tiles(std::span<const XlaValue> initial, const TileBody& body) const {
  StableHloWriter& w = writer();
  const XlaValue zero = index(0);
  const XlaValue batch_rows = index(sizes_.batch);
  const XlaValue heads = index(sizes_.heads);
  const XlaValue tiles = index(sizes_.query_tiles());
  return w.for_loop(zero, batch_rows, initial, [&](const XlaValue& batch, std::span<const XlaValue> of_row) {
    return w.for_loop(zero, heads, of_row, [&](const XlaValue& head, std::span<const XlaValue> of_head) {
      return w.for_loop(zero, tiles, of_head, [&](const XlaValue& number, std::span<const XlaValue> of_tile) {
        return body(query_tile(batch, head, number), of_tile);
      });
    });
  });
}

/// begin[i] <= first_key + j < end[i], boolean [i, tile.keys].
XlaValue AttentionLayout::in_interval(const XlaValue& begin, const XlaValue& end, const XlaValue& first_key) const {
  StableHloWriter& w = writer();
  const Shape shape{begin.spec.shape[0], sizes_.tile.keys};
  const XlaValue key = w.binary("add", w.iota(index_spec(shape), 1), w.broadcast(first_key, shape, {}));
  return w.binary("and", w.compare("GE", key, w.broadcast(begin, shape, {0})),
                  w.compare("LT", key, w.broadcast(end, shape, {0})));
}

VisibleKeys AttentionLayout::visible_keys(const QueryTile& tile, const XlaValue& number) const {
  StableHloWriter& w = writer();
  VisibleKeys keys;
  keys.batch = tile.batch;
  keys.kv_head = tile.kv_head;
  keys.first_key = w.binary("multiply", number, index(sizes_.tile.keys));
  keys.mask = in_interval(per_row(tile.begin), per_row(tile.end), keys.first_key);
  const XlaValue by_query = w.convert(in_interval(tile.begin, tile.end, keys.first_key), DType::int32);
  const XlaValue seen = w.reduce("maximum", by_query, {0});
  keys.seen = w.compare("GT", seen, w.constant(seen.spec, 0));
  return keys;
}

std::vector<XlaValue> AttentionLayout::for_key_tiles(const QueryTile& tile, std::span<const XlaValue> initial,
                                                     const KeyBody& body) const {
  return writer().for_loop(tile.first_key_tile, tile.end_key_tile, initial,
                           [&](const XlaValue& number, std::span<const XlaValue> values) {
                             return body(visible_keys(tile, number), values);
                           });
}

XlaValue AttentionLayout::query_rows(const XlaValue& x, const QueryTile& tile) const {
  const std::vector<XlaValue> starts = {tile.batch, tile.query, tile.query_head, index(0)};
  return writer().reshape(writer().dynamic_slice(x, starts, {1, sizes_.tile.queries, sizes_.group, sizes_.head_dim}),
                          {sizes_.rows(), sizes_.head_dim});
}

XlaValue AttentionLayout::update_query_rows(const XlaValue& x, const XlaValue& rows, const QueryTile& tile) const {
  const std::vector<XlaValue> starts = {tile.batch, tile.query, tile.query_head, index(0)};
  const XlaValue box =
      writer().reshape(writer().convert(rows, x.spec.dtype), {1, sizes_.tile.queries, sizes_.group, sizes_.head_dim});
  return writer().dynamic_update_slice(x, box, starts);
}

XlaValue AttentionLayout::row_numbers(const XlaValue& x, const QueryTile& tile) const {
  const std::vector<XlaValue> starts = {tile.batch, tile.query_head, tile.query};
  const XlaValue box = writer().reshape(writer().dynamic_slice(x, starts, {1, sizes_.group, sizes_.tile.queries}),
                                        {sizes_.group, sizes_.tile.queries});
  return writer().reshape(writer().transpose(box, {1, 0}), {sizes_.rows()});
}

XlaValue AttentionLayout::update_row_numbers(const XlaValue& x, const XlaValue& rows, const QueryTile& tile) const {
  const std::vector<XlaValue> starts = {tile.batch, tile.query_head, tile.query};
  const XlaValue box = writer().transpose(writer().reshape(rows, {sizes_.tile.queries, sizes_.group}), {1, 0});
  return writer().dynamic_update_slice(x, writer().reshape(box, {1, sizes_.group, sizes_.tile.queries}), starts);
}

XlaValue AttentionLayout::key_rows(const XlaValue& x, const VisibleKeys& keys) const {
  const std::vector<XlaValue> starts = {keys.batch, keys.kv_head, keys.first_key, index(0)};
  return writer().reshape(writer().dynamic_slice(x, starts, {1, 1, sizes_.tile.keys, sizes_.head_dim}),
                          {sizes_.tile.keys, sizes_.head_dim});
}

XlaValue AttentionLayout::update_key_rows(const XlaValue& x, const XlaValue& rows, const VisibleKeys& keys) const {
  const std::vector<XlaValue> starts = {keys.batch, keys.kv_head, keys.first_key, index(0)};
  const XlaValue box = writer().reshape(rows, {1, 1, sizes_.tile.keys, sizes_.head_dim});
  return writer().dynamic_update_slice(x, box, starts);
}

XlaValue AttentionLayout::rows_where(const XlaValue& kept, const XlaValue& x) const {
  const XlaValue condition = writer().broadcast(kept, x.spec.shape, {0});
  return writer().select(condition, x, writer().constant(x.spec, 0));
}

XlaValue AttentionLayout::along_columns(const XlaValue& x, std::int64_t columns) const {
  return writer().broadcast(x, {x.spec.shape[0], columns}, {0});
}

AttentionScores attention_scores(StableHloWriter& writer, const XlaValue& q, const XlaValue& k, double scale,
                                 double softcap) {
  const XlaValue products =
      writer.dot(q, k, {.lhs_contracting = {1}, .rhs_contracting = {1}}, accumulation_dtype(q.spec.dtype));
  AttentionScores result;
  const auto all = [&](double value) { return writer.constant(products.spec, value); };
  if (softcap == 0) {
    result.scores = writer.binary("multiply", products, all(scale));
    return result;
  }
  const XlaValue tangent = writer.unary("tanh", writer.binary("multiply", products, all(scale / softcap)));
  result.scores = writer.binary("multiply", tangent, all(softcap));
  result.slope = writer.binary("subtract", all(1), writer.binary("multiply", tangent, tangent));
  return result;
}

}  // namespace maxtext
