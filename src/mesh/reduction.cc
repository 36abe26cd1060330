#include "mesh/reduction.h"

#include <algorithm>
#include <cstring>

namespace maxtext {
namespace {

// The accumulator stays in the first-level cache while the sources stream by.
constexpr std::int64_t kBlock = 1024;

template <typename T>
void accumulate(ReduceOp op, const T* source, T* accumulator, std::int64_t count) {
  if (op == ReduceOp::sum) {
    for (std::int64_t i = 0; i < count; ++i) accumulator[i] += source[i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      const T value = source[i];
      accumulator[i] = value > accumulator[i] || value != value ? value : accumulator[i];
    }
  }
}

template <typename T>
void reduce_typed(ReduceOp op, std::span<const std::byte* const> sources, std::byte* result, std::int64_t count) {
  std::array<T, kBlock> accumulator;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t length = std::min(kBlock, count - begin);
    const auto bytes = static_cast<std::size_t>(length) * sizeof(T);
    std::memcpy(accumulator.data(), reinterpret_cast<const T*>(sources[0]) + begin, bytes);
    for (const std::byte* source : sources.subspan(1)) {
      accumulate(op, reinterpret_cast<const T*>(source) + begin, accumulator.data(), length);
    }
    std::memcpy(reinterpret_cast<T*>(result) + begin, accumulator.data(), bytes);
  }
}

}  // namespace

void reduce_in_order(ElementType element, ReduceOp op, std::span<const std::byte* const> sources, std::byte* result,
                     std::int64_t count) {
  switch (element) {
    case ElementType::float32:
      return reduce_typed<float>(op, sources, result, count);
    case ElementType::float64:
      return reduce_typed<double>(op, sources, result, count);
    case ElementType::bytes:
      fail("bytes cannot be reduced");
  }
}

}  // namespace maxtext
