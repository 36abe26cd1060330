// Whether what is stored of a tensor is the whole tensor, and each element of it once.
#pragma once

#include <string_view>
#include <vector>

#include "checkpoint/column_block.h"

namespace maxtext {

/// Throws Error that names kind, tensor and element unless `ranges` (each within the tensor, their blocks explicit)
/// together hold each element of a tensor of this shape exactly once.
void check_coverage(std::string_view kind, std::string_view name, const Shape& shape,
                    const std::vector<BlockRange>& ranges);

}  // namespace maxtext
