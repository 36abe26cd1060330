// Element types of tensors, spelled as MaxText and safetensors spell them.
#pragma once

#include <cstdint>
#include <string_view>

namespace maxtext {

enum class DType { float32, float64, bfloat16, float16, int32, int64, uint8, boolean, int8 };

/// Bytes of one element.
std::int64_t dtype_size(DType dtype);

/// MaxText's name: "float32", "bfloat16", ...
std::string_view dtype_name(DType dtype);

/// The inverse of dtype_name; throws Error that lists the names.
DType parse_dtype(std::string_view name);

}  // namespace maxtext
