#include "tensor/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <numeric>

#include "base/error.h"

namespace maxtext {

std::size_t Shape::checked(std::size_t count) {
  if (count > kMostDimensions) fail("a tensor of {} dimensions; at most {} are supported", count, kMostDimensions);
  return count;
}

std::size_t Shape::checked_index(std::size_t i) const {
  if (i >= count_) fail("{} has no dimension {}", to_string(*this), i);
  return i;
}

void Shape::push_back(std::int64_t size) { insert(end(), size); }

Shape::iterator Shape::insert(const_iterator place, std::int64_t size) {
  const std::ptrdiff_t index = place - begin();
  count_ = checked(count_ + 1);
  std::copy_backward(begin() + index, end() - 1, end());
  sizes_[static_cast<std::size_t>(index)] = size;
  return begin() + index;
}

void Shape::erase(const_iterator place) {
  std::copy(place + 1, const_iterator(end()), begin() + (place - begin()));
  sizes_[--count_] = 0;
}

std::int64_t element_count(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string to_string(const TensorSpec& spec) {
  return fmt::format("{}{}", dtype_name(spec.dtype), to_string(spec.shape));
}

}  // namespace maxtext
