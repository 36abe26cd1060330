#include <algorithm>

#include "engines/xla/trace.h"

namespace maxtext {
namespace {

constexpr std::int64_t kBlock = 8192;
constexpr std::int64_t kLanes = 128;  // of a block's row: two short sums round less than a long one

/// Sums over ranges that the program computes. Blocks are summed once, in the dtype of x, and only their sums are
/// added in float64, which TPUs emulate: x is read once, and up to two blocks of it again per range, for its ends.
class RangeSums {
 public:
  RangeSums(StableHloWriter& writer, const XlaValue& x) : writer_(writer), x_(x), size_(x.spec.elements()) {
    const std::int64_t blocks = size_ / kBlock;
    if (blocks == 0) return;
    const XlaValue whole =
        writer_.reshape(writer_.slice(x_, {0}, {blocks * kBlock}), {blocks, kBlock / kLanes, kLanes});
    const XlaValue rows = writer_.reduce("add", square(whole), {2});
    block_sums_ = writer_.convert(writer_.reduce("add", rows, {1}), DType::float64);
  }

  /// Σ x² over [begin, end), float64 [].
  XlaValue sum(const XlaValue& begin, const XlaValue& end) const {
    if (size_ == 0) return writer_.constant({{}, DType::float64}, 0);
    const XlaValue block = integer(kBlock);
    const XlaValue first = writer_.binary("divide", writer_.binary("add", begin, integer(kBlock - 1)),
                                          block);                // the first block that begins within
    const XlaValue last = writer_.binary("divide", end, block);  // the one after the last that ends within
    const XlaValue head_end = writer_.binary("minimum", end, writer_.binary("multiply", first, block));
    const XlaValue tail_begin = writer_.binary("maximum", head_end, writer_.binary("multiply", last, block));
    XlaValue total = writer_.binary("add", part_of_block(begin, head_end), part_of_block(tail_begin, end));
    if (block_sums_.defined()) total = writer_.binary("add", total, whole_blocks(first, last));
    return total;
  }

 private:
  XlaValue integer(std::int64_t value) const {
    return writer_.constant({{}, DType::int64}, static_cast<double>(value));
  }

  XlaValue square(const XlaValue& x) const { return writer_.binary("multiply", x, x); }

  /// `values` where positions, of which the first is `start`, lie within [begin, end), zeros elsewhere, whatever lies
  /// there.
  XlaValue within(const XlaValue& values, const XlaValue& start, const XlaValue& begin, const XlaValue& end) const {
    const Shape& shape = values.spec.shape;
    const XlaValue position =
        writer_.binary("add", writer_.iota({shape, DType::int64}, 0), writer_.broadcast(start, shape, {}));
    const XlaValue inside = writer_.binary("and", writer_.compare("GE", position, writer_.broadcast(begin, shape, {})),
                                           writer_.compare("LT", position, writer_.broadcast(end, shape, {})));
    return writer_.select(inside, values, writer_.constant(values.spec, 0));
  }

  /// A range of at most one block.
  XlaValue part_of_block(const XlaValue& begin, const XlaValue& end) const {
    const std::int64_t length = std::min(size_, kBlock);
    const XlaValue start = writer_.binary("minimum", begin, integer(size_ - length));
    const std::vector<XlaValue> starts = {start};
    const XlaValue part = within(writer_.dynamic_slice(x_, starts, {length}), start, begin, end);
    return writer_.convert(writer_.reduce("add", square(part), {0}), DType::float64);
  }

  XlaValue whole_blocks(const XlaValue& first, const XlaValue& last) const {
    return writer_.reduce("add", within(block_sums_, integer(0), first, last), {0});
  }

  StableHloWriter& writer_;
  XlaValue x_;
  std::int64_t size_;
  XlaValue block_sums_;  // float64 [blocks]; undefined where x is shorter than one
};

}  // namespace

/// The squares of magnitudes beyond 1.8e19 are infinite in float32, so a norm with them is, which skips the step.
void trace(XlaContext& context, const SumOfSquares& /*op*/, XlaInputs inputs, XlaOutputs outputs) {
  StableHloWriter& writer = context.writer;
  const XlaValue ranges = context.load(inputs[1]);
  const std::int64_t count = inputs[1].dim(0);
  const RangeSums sums(writer, context.load(inputs[0]));
  const auto integer = [&](std::int64_t value) {
    return writer.constant({{}, DType::int64}, static_cast<double>(value));
  };
  const std::vector<XlaValue> initial = {writer.constant({{count}, DType::float64}, 0)};
  const XlaValue zero = integer(0);
  const auto body = [&](const XlaValue& index, std::span<const XlaValue> values) {
    const auto bound = [&](std::int64_t which) {
      const std::vector<XlaValue> starts = {index, integer(which)};
      return writer.reshape(writer.dynamic_slice(ranges, starts, {1, 1}), {});
    };
    const XlaValue sum = writer.reshape(sums.sum(bound(0), bound(1)), {1});
    const std::vector<XlaValue> at = {index};
    return std::vector<XlaValue>{writer.dynamic_update_slice(values[0], sum, at)};
  };
  context.store(outputs[0], writer.for_loop(zero, integer(count), initial, body)[0]);
}

}  // namespace maxtext
