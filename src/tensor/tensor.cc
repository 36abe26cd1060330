#include "tensor/tensor.h"

#include "base/error.h"

namespace maxtext {

Tensor Tensor::view(std::int64_t first_element, Shape shape) const {
  const std::int64_t count = element_count(shape);
  if (first_element < 0 || first_element + count > elements()) {
    fail("a view of {} elements from {} does not lie within {}", count, first_element, to_string(spec_));
  }
  return Tensor({shape, spec_.dtype}, storage_, byte_offset_ + first_element * dtype_size(spec_.dtype));
}

}  // namespace maxtext
