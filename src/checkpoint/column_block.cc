#include "checkpoint/column_block.h"

#include <fmt/format.h>

namespace maxtext {

ColumnBlock all_columns(const Shape& shape) { return {0, shape.empty() ? 1 : shape.back()}; }

ColumnBlock explicit_block(const ColumnBlock& block, const Shape& shape) {
  return {block.begin, block.count == 0 ? all_columns(shape).count : block.count};
}

std::int64_t element_count(const ColumnBlock& block, const Shape& shape) {
  if (shape.empty()) return block.count;
  Shape of_block = shape;
  of_block.back() = block.count;
  return element_count(of_block);
}

bool is_within(const BlockRange& range, const Shape& shape) {
  const auto within = [](std::int64_t begin, std::int64_t count, std::int64_t size) {
    return begin >= 0 && count >= 0 && count <= size && begin <= size - count;
  };
  return within(range.block.begin, range.block.count, all_columns(shape).count) &&
         within(range.first, range.count, element_count(range.block, shape));
}

std::string to_string(const BlockRange& range, const Shape& shape) {
  std::string text = fmt::format("the range of {} elements from {}", range.count, range.first);
  if (range.block == all_columns(shape)) return text;
  return text + fmt::format(" in the block of {} columns from {}", range.block.count, range.block.begin);
}

BlockRange restricted(const BlockRange& range, const ColumnBlock& part) {
  const std::int64_t columns = range.block.count;
  if (columns == 0) return {part, 0, 0};
  const auto elements_before = [&](std::int64_t i) {
    const std::int64_t in_row = i % columns - (part.begin - range.block.begin);
    return i / columns * part.count + std::clamp(in_row, std::int64_t{0}, part.count);
  };
  const std::int64_t first = elements_before(range.first);
  return {part, first, elements_before(range.first + range.count) - first};
}

BlockRange overlap(const BlockRange& a, const BlockRange& b) {
  const std::int64_t begin = std::max(a.block.begin, b.block.begin);
  const std::int64_t end = std::min(a.block.begin + a.block.count, b.block.begin + b.block.count);
  const ColumnBlock columns{begin, std::max(end - begin, std::int64_t{0})};
  if (columns.count == 0) return {columns, 0, 0};
  const BlockRange in_a = restricted(a, columns);
  const BlockRange in_b = restricted(b, columns);
  const std::int64_t first = std::max(in_a.first, in_b.first);
  const std::int64_t last = std::min(in_a.first + in_a.count, in_b.first + in_b.count);
  return {columns, first, std::max(last - first, std::int64_t{0})};
}

}  // namespace maxtext
