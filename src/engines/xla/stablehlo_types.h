// How types and literals are spelled in StableHLO text. The spellings parse from StableHLO 1.13 on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/shape.h"

namespace maxtext {

/// "f32", "i1", ...
std::string_view element_type(DType dtype);

/// "tensor<2x128xf32>"; "tensor<f32>" for a scalar.
std::string type_text(const TensorSpec& spec);

/// True for the floating-point dtypes.
bool is_floating(DType dtype);

/// A number as an element of `dtype`, round-trip exact; infinities and NaN as bit patterns. Throws Error for a
/// fraction, an infinity or NaN in an integer dtype.
std::string literal(double value, DType dtype);

/// "[0, 2, 1]".
std::string list_text(std::span<const std::int64_t> values);

/// The attribute of the replica groups, one row per group: "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>". All groups
/// have one size and cover every replica, which TPU compilers demand.
std::string replica_groups_text(const std::vector<std::vector<int>>& groups);

}  // namespace maxtext
