// Shapes, row-major, outermost dimension first.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "tensor/dtype.h"

namespace maxtext {

/// A short list of sizes, used as a vector is. It holds them itself: a step copies thousands of shapes, and as vectors
/// they were a third of the time of a small model's decode step. As with a vector, operator[], front and back do not
/// check; here no sanitizer sees it either, so code that is not sure of the rank takes at().
class Shape {
 public:
  using value_type = std::int64_t;
  using iterator = std::int64_t*;
  using const_iterator = const std::int64_t*;

  static constexpr std::size_t kMostDimensions = 8;

  Shape() = default;
  /// These throw Error for more than kMostDimensions, as do push_back and insert.
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(sizes.begin(), sizes.end()) {}
  Shape(const_iterator first, const_iterator last) : count_(checked(static_cast<std::size_t>(last - first))) {
    std::copy(first, last, sizes_.begin());
  }
  explicit Shape(std::span<const std::int64_t> sizes) : Shape(sizes.data(), sizes.data() + sizes.size()) {}

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  std::int64_t operator[](std::size_t i) const { return sizes_[i]; }
  std::int64_t& operator[](std::size_t i) { return sizes_[i]; }
  /// Throws Error for an index beyond the dimensions.
  std::int64_t at(std::size_t i) const { return sizes_[checked_index(i)]; }
  std::int64_t& at(std::size_t i) { return sizes_[checked_index(i)]; }
  std::int64_t front() const { return sizes_[0]; }
  std::int64_t back() const { return sizes_[count_ - 1]; }
  std::int64_t& back() { return sizes_[count_ - 1]; }
  const std::int64_t* data() const { return sizes_.data(); }
  const_iterator begin() const { return sizes_.data(); }
  const_iterator end() const { return sizes_.data() + count_; }
  iterator begin() { return sizes_.data(); }
  iterator end() { return sizes_.data() + count_; }

  void push_back(std::int64_t size);
  iterator insert(const_iterator place, std::int64_t size);
  void erase(const_iterator place);

  bool operator==(const Shape& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

 private:
  static std::size_t checked(std::size_t count);
  std::size_t checked_index(std::size_t i) const;

  std::array<std::int64_t, kMostDimensions> sizes_ = {};
  std::size_t count_ = 0;
};

/// Number of elements; 1 for a scalar's empty shape.
std::int64_t element_count(const Shape& shape);

/// "[2, 128, 64]".
std::string to_string(const Shape& shape);

/// What is known of a tensor before it holds data: enough for shape rules, memory and FLOP counts.
struct TensorSpec {
  Shape shape;
  DType dtype = DType::float32;

  std::int64_t elements() const { return element_count(shape); }
  std::int64_t bytes() const { return elements() * dtype_size(dtype); }
  bool operator==(const TensorSpec&) const = default;
};

/// "float32[2, 128, 64]".
std::string to_string(const TensorSpec& spec);

}  // namespace maxtext
