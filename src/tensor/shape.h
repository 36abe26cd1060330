// Shapes, row-major, outermost dimension first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace maxtext {

using Shape = std::vector<std::int64_t>;

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
