// Conversions between float and the two 16-bit floating-point formats, in portable integer arithmetic (bit-exact with
// the hardware instructions where those exist).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace maxtext {

/// The nearest bfloat16, ties to even; overflow gives infinity, NaN stays a (quiet) NaN.
constexpr std::uint16_t float_to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x0040U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// Exact.
constexpr float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// The nearest IEEE binary16, ties to even, with subnormals; overflow gives infinity, NaN stays a (quiet) NaN.
std::uint16_t float_to_float16(float value);

/// Exact.
float float16_to_float(std::uint16_t bits);

/// Reads to.size() elements of the given dtype (any of DType; int64 and float64 round to the nearest float) from
/// `from`, which needs no alignment. Throws Error when the byte count does not fit.
void convert_to_float(std::span<const std::byte> from, DType dtype, std::span<float> to);

/// Writes from.size() floats as float32, float64, bfloat16 or float16 to `to`, which needs no alignment. Throws Error
/// for another dtype or when the byte count does not fit.
void convert_from_float(std::span<const float> from, DType dtype, std::span<std::byte> to);

}  // namespace maxtext
