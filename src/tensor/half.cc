#include "tensor/half.h"

#include <cstring>

#include "base/error.h"

namespace maxtext {
namespace {

template <typename Stored, typename Decode>
void decode_all(std::span<const std::byte> from, std::span<float> to, Decode decode) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, from.data() + i * sizeof(Stored), sizeof(Stored));
    to[i] = decode(stored);
  }
}

template <typename Stored, typename Encode>
void encode_all(std::span<const float> from, std::span<std::byte> to, Encode encode) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Stored stored = encode(from[i]);
    std::memcpy(to.data() + i * sizeof(Stored), &stored, sizeof(Stored));
  }
}

void check_bytes(std::size_t bytes, std::size_t elements, DType dtype) {
  const std::size_t expected = elements * static_cast<std::size_t>(dtype_size(dtype));
  if (bytes != expected) {
    fail("{} elements of {} take {} bytes, but {} were given", elements, dtype_name(dtype), expected, bytes);
  }
}

}  // namespace

std::uint16_t float_to_float16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  constexpr std::uint32_t kInfinity = 0x7f800000U;
  constexpr std::uint32_t kTwoTo16 = 0x47800000U;
  constexpr std::uint32_t kSmallestNormal = 0x38800000U;
  if (magnitude > kInfinity) return static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));
  if (magnitude >= kTwoTo16) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (magnitude < kSmallestNormal) {
    // One unit in the last place of 0.5f is 2^-24, the unit of float16's subnormals: the addition rounds for us.
    const std::uint32_t sum = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F);
    return static_cast<std::uint16_t>(sign | (sum - std::bit_cast<std::uint32_t>(0.5F)));
  }
  constexpr std::uint32_t kExponentShift = (127U - 15U) << 23;
  const std::uint32_t rounded = magnitude - kExponentShift + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

float float16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  const std::uint32_t wide_exponent = exponent == 31 ? 255U : exponent + (127U - 15U);
  return std::bit_cast<float>(sign | (wide_exponent << 23) | (mantissa << 13));
}

void convert_to_float(std::span<const std::byte> from, DType dtype, std::span<float> to) {
  check_bytes(from.size(), to.size(), dtype);
  const auto as_float = [](auto stored) { return static_cast<float>(stored); };
  switch (dtype) {
    case DType::float32:
      if (!to.empty()) std::memcpy(to.data(), from.data(), from.size());
      return;
    case DType::float64:
      return decode_all<double>(from, to, as_float);
    case DType::bfloat16:
      return decode_all<std::uint16_t>(from, to, bfloat16_to_float);
    case DType::float16:
      return decode_all<std::uint16_t>(from, to, float16_to_float);
    case DType::int32:
      return decode_all<std::int32_t>(from, to, as_float);
    case DType::int64:
      return decode_all<std::int64_t>(from, to, as_float);
    case DType::uint8:
    case DType::boolean:
      return decode_all<std::uint8_t>(from, to, as_float);
    case DType::int8:
      return decode_all<std::int8_t>(from, to, as_float);
  }
  fail("unknown dtype {}", static_cast<int>(dtype));
}

void convert_from_float(std::span<const float> from, DType dtype, std::span<std::byte> to) {
  check_bytes(to.size(), from.size(), dtype);
  switch (dtype) {
    case DType::float32:
      if (!from.empty()) std::memcpy(to.data(), from.data(), to.size());
      return;
    case DType::float64:
      return encode_all<double>(from, to, [](float value) { return static_cast<double>(value); });
    case DType::bfloat16:
      return encode_all<std::uint16_t>(from, to, float_to_bfloat16);
    case DType::float16:
      return encode_all<std::uint16_t>(from, to, float_to_float16);
    default:
      fail("a float is stored as float32, float64, bfloat16 or float16, not as {}", dtype_name(dtype));
  }
}

}  // namespace maxtext
