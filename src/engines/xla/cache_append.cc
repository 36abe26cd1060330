// New rows of a KV cache. One sequence's rows are one or two boxes of the cache, which are read, mixed and written back
// at the place that the program computes: compilers do that in place, and for a chunk of a prompt it is one copy, where
// a scatter is a loop over its rows. The rows of several sequences, one each in a decode step, are a scatter.
#include <algorithm>
#include <limits>
#include <vector>

#include "engines/xla/trace.h"

namespace maxtext {
namespace {

/// Rows of new keys or values as the cache holds them.
struct StoredRows {
  XlaValue values;  // [B, T, kv_heads, D]
  XlaValue scales;  // float32 [B, T, kv_heads]; undefined unless int8
};

XlaValue constant_like(StableHloWriter& writer, const XlaValue& x, double value) {
  return writer.constant(x.spec, value);
}

StoredRows quantised(StableHloWriter& writer, const XlaValue& rows) {
  // Below this the inverse is infinite; such a row is zero to any float32 sum with others.
  constexpr double kSmallest = 1e-36;
  constexpr double kLevels = 127;
  const XlaValue largest = writer.reduce("maximum", writer.unary("abs", rows), {3});
  const XlaValue finite =
      writer.compare("LT", largest, constant_like(writer, largest, std::numeric_limits<double>::infinity()));
  const XlaValue usable =
      writer.binary("and", finite, writer.compare("GE", largest, constant_like(writer, largest, kSmallest)));
  const XlaValue zeros = constant_like(writer, largest, 0);
  const XlaValue levels = constant_like(writer, largest, kLevels);
  const XlaValue inverse = writer.binary("divide", levels, largest);
  const auto along = [&](const XlaValue& per_row) { return writer.broadcast(per_row, rows.spec.shape, {0, 1, 2}); };
  const XlaValue scaled =
      writer.select(along(usable), writer.binary("multiply", rows, along(inverse)), constant_like(writer, rows, 0));
  const XlaValue nan = constant_like(writer, largest, std::numeric_limits<double>::quiet_NaN());
  const XlaValue scale = writer.select(usable, writer.binary("divide", largest, levels), zeros);
  return {writer.convert(writer.unary("round_nearest_even", scaled), DType::int8), writer.select(finite, scale, nan)};
}

/// Where the rows of each sequence go, int32 [B]: row t, first <= t < count, to position + t, and nowhere else.
struct Places {
  XlaValue position;
  XlaValue first;
  XlaValue count;
};

Places places(XlaContext& context, const CacheAppend& op, const Tensor& position, const Tensor* counts,
              std::int64_t rows, std::int64_t capacity) {
  StableHloWriter& writer = context.writer;
  Places result;
  result.position = context.load(position);
  const auto number = [&](std::int64_t value) {
    return constant_like(writer, result.position, static_cast<double>(value));
  };
  result.count = number(rows);
  if (counts != nullptr) {
    result.count = writer.binary("maximum", number(0), writer.binary("minimum", result.count, context.load(*counts)));
  }
  // Rows at negative positions are dropped, and of a ring all but the last `capacity`: the last of a slot stays.
  result.first = writer.binary("maximum", number(0), writer.binary("subtract", number(0), result.position));
  if (op.ring) {
    result.first = writer.binary("maximum", result.first, writer.binary("subtract", result.count, number(capacity)));
  }
  return result;
}

/// The rows of one sequence written into [1, kv_heads, capacity, ...]: `rows` [1, T, kv_heads, ...]; scalars.
class BoxWriter {
 public:
  BoxWriter(StableHloWriter& writer, std::int64_t capacity, std::int64_t rows, const Places& p)
      : writer_(writer), capacity_(capacity), rows_(rows), size_(std::min(capacity, rows)) {
    first_ = writer.reshape(p.first, {});
    count_ = writer.reshape(p.count, {});
  }

  /// Row t goes to slot `start` + t where there is one.
  XlaValue write(const XlaValue& cache, const XlaValue& rows, const XlaValue& start) const {
    const XlaValue zero = number(0);
    // The box that has all slots in question, and the row that is its first.
    const XlaValue box = writer_.binary("maximum", zero, writer_.binary("minimum", start, number(capacity_ - size_)));
    const XlaValue row = writer_.binary("subtract", box, start);
    std::vector<XlaValue> at(cache.spec.shape.size(), zero);
    at[2] = box;
    Shape sizes = cache.spec.shape;
    sizes[2] = size_;
    const XlaValue old = writer_.dynamic_slice(cache, at, sizes);
    const XlaValue written = writer_.broadcast(is_written(row), sizes, {2});
    return writer_.dynamic_update_slice(cache, writer_.select(written, shifted(rows, row), old), at);
  }

 private:
  XlaValue number(std::int64_t value) const { return writer_.constant({{}, DType::int32}, static_cast<double>(value)); }

  /// boolean [size]: whether the row at each place of the box is one to write, where `row` is the first.
  XlaValue is_written(const XlaValue& row) const {
    const TensorSpec spec{{size_}, DType::int32};
    const XlaValue t = writer_.binary("add", writer_.iota(spec, 0), writer_.broadcast(row, spec.shape, {}));
    return writer_.binary("and", writer_.compare("GE", t, writer_.broadcast(first_, spec.shape, {})),
                          writer_.compare("LT", t, writer_.broadcast(count_, spec.shape, {})));
  }

  /// Rows [row, row + size) in the order of the cache; anything where there is no such row.
  XlaValue shifted(const XlaValue& rows, const XlaValue& row) const {
    std::vector<std::int64_t> heads_first = {0, 2, 1};
    if (rows.spec.shape.size() == 4) heads_first.push_back(3);
    XlaValue turned = writer_.transpose(rows, heads_first);
    if (rows_ == 1) return turned;
    TensorSpec margin = turned.spec;
    margin.shape[2] = size_;
    const XlaValue beyond = writer_.constant(margin, 0);
    std::vector<XlaValue> at(turned.spec.shape.size(), number(0));
    at[2] = writer_.binary("add", row, number(size_));
    return writer_.dynamic_slice(writer_.concatenate(std::vector<XlaValue>{beyond, turned, beyond}, 2), at,
                                 margin.shape);
  }

  StableHloWriter& writer_;
  std::int64_t capacity_;
  std::int64_t rows_;
  std::int64_t size_;
  XlaValue first_;
  XlaValue count_;
};

/// Of one sequence: the starts of the boxes for BoxWriter::write. In a ring the rows from `first` on begin at one slot
/// and go on at slot 0 behind the last: two boxes, unless there is one row only.
std::vector<XlaValue> box_starts(StableHloWriter& writer, bool ring, std::int64_t capacity, std::int64_t rows,
                                 const Places& p) {
  const XlaValue position = writer.reshape(p.position, {});
  if (!ring) return {position};
  const XlaValue first = writer.reshape(p.first, {});
  const XlaValue size = writer.constant(first.spec, static_cast<double>(capacity));
  const XlaValue slot = writer.binary("remainder", writer.binary("add", position, first), size);
  const XlaValue start = writer.binary("subtract", slot, first);
  if (rows == 1) return {start};
  return {start, writer.binary("subtract", start, size)};
}

/// int32 [B, T, 2]: the sequence and the slot of each row, a slot beyond the capacity for those that are dropped.
XlaValue row_places(StableHloWriter& writer, bool ring, std::int64_t capacity, std::int64_t rows, const Places& p) {
  const TensorSpec spec{{p.position.spec.shape[0], rows}, DType::int32};
  const auto along_rows = [&](const XlaValue& x) { return writer.broadcast(x, spec.shape, {0}); };
  const XlaValue size = writer.constant(spec, static_cast<double>(capacity));
  const XlaValue t = writer.iota(spec, 1);
  const XlaValue at = writer.binary("add", along_rows(p.position), t);
  XlaValue kept =
      writer.binary("and", writer.compare("GE", t, along_rows(p.first)), writer.compare("LT", t, along_rows(p.count)));
  if (!ring) kept = writer.binary("and", kept, writer.compare("LT", at, size));
  const XlaValue slot =
      writer.select(kept, ring ? writer.binary("remainder", at, size) : at, writer.binary("add", size, t));
  const Shape one{spec.shape[0], rows, 1};
  const XlaValue sequence = writer.iota(spec, 0);
  return writer.concatenate(std::vector<XlaValue>{writer.reshape(sequence, one), writer.reshape(slot, one)}, 2);
}

}  // namespace

void trace(XlaContext& context, const CacheAppend& op, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const std::int64_t capacity = inputs[0].dim(2);
  const std::int64_t rows = inputs[1].dim(1);
  const bool is_quantised = inputs[0].dtype() == DType::int8;
  const std::size_t counts = is_quantised ? 4 : 3;
  const Places p = places(context, op, inputs[2], op.has_rows ? &inputs[counts] : nullptr, rows, capacity);
  XlaValue cache = context.load(inputs[0]);
  XlaValue scales = is_quantised ? context.load(inputs[3]) : XlaValue{};
  const XlaValue given = context.load(inputs[1]);
  const StoredRows stored =
      is_quantised ? quantised(writer, given) : StoredRows{writer.convert(given, cache.spec.dtype), {}};

  if (inputs[0].dim(0) == 1) {
    const BoxWriter box(writer, capacity, rows, p);
    for (const XlaValue& start : box_starts(writer, op.ring, capacity, rows, p)) {
      cache = box.write(cache, stored.values, start);
      if (is_quantised) scales = box.write(scales, stored.scales, start);
    }
  } else {
    const XlaValue at = row_places(writer, op.ring, capacity, rows, p);
    cache = writer.scatter_replace(cache, at, {0, 2}, stored.values);
    if (is_quantised) scales = writer.scatter_replace(scales, at, {0, 2}, stored.scales);
  }
  context.store(outputs[0], cache);
  if (is_quantised) context.store(outputs[1], scales);
}

}  // namespace maxtext
