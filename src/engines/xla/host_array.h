// Contents on the host side of a compiled program: its arguments and results.
#pragma once

#include <cstddef>
#include <vector>

#include "tensor/shape.h"

namespace maxtext {

/// Row-major elements of `spec`.
struct HostArray {
  TensorSpec spec;
  std::vector<std::byte> bytes;
};

}  // namespace maxtext
