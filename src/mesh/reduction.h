// The arithmetic of reducing collectives, shared by all transports so that their results are bitwise the same.
#pragma once

#include <span>

#include "mesh/communicator.h"

namespace maxtext {

/// result[i] = op(... op(op(sources[0][i], sources[1][i]), sources[2][i]) ...) for i < count, in the element's own
/// precision. `result` may be one of the sources. Reads sources.size()·count elements, writes count: bound by memory.
void reduce_in_order(ElementType element, ReduceOp op, std::span<const std::byte* const> sources, std::byte* result,
                     std::int64_t count);

}  // namespace maxtext
