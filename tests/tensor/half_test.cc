#include "tensor/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"

namespace maxtext {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Half, KnownBfloat16Values) {
  EXPECT_EQ(float_to_bfloat16(1.0F), 0x3f80);
  EXPECT_EQ(float_to_bfloat16(-2.0F), 0xc000);
  EXPECT_EQ(float_to_bfloat16(0x1.01p0F), 0x3f80) << "a tie goes to the even neighbour below";
  EXPECT_EQ(float_to_bfloat16(0x1.03p0F), 0x3f82) << "a tie goes to the even neighbour above";
  EXPECT_EQ(float_to_bfloat16(0x1.010002p0F), 0x3f81) << "just above a tie";
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_bfloat16(-kInfinity), 0xff80);
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7f800001U)))));
}

TEST(Half, KnownFloat16Values) {
  EXPECT_EQ(float_to_float16(1.0F), 0x3c00);
  EXPECT_EQ(float_to_float16(-2.0F), 0xc000);
  EXPECT_EQ(float_to_float16(65504.0F), 0x7bff) << "the largest";
  EXPECT_EQ(float_to_float16(65519.0F), 0x7bff);
  EXPECT_EQ(float_to_float16(65520.0F), 0x7c00) << "rounds to infinity";
  EXPECT_EQ(float_to_float16(1e30F), 0x7c00);
  EXPECT_EQ(float_to_float16(0x1p-24F), 0x0001) << "the smallest subnormal";
  EXPECT_EQ(float_to_float16(0x1p-25F), 0x0000) << "half of it is a tie with zero";
  EXPECT_EQ(float_to_float16(0x1.8p-24F), 0x0002) << "a tie goes to even";
  EXPECT_EQ(float_to_float16(0x1.ffep-15F), 0x0400) << "the largest subnormal's tie rounds up into a normal";
  EXPECT_EQ(float_to_float16(-0.0F), 0x8000);
  EXPECT_EQ(float_to_float16(0.1F), 0x2e66);
  EXPECT_TRUE(std::isnan(float16_to_float(float_to_float16(std::bit_cast<float>(0x7f800001U)))));
}

TEST(Half, EveryBitPatternRoundTrips) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (std::isnan(bfloat16_to_float(half))) {
      ASSERT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(bfloat16_to_float(half)))));
    } else {
      ASSERT_EQ(float_to_bfloat16(bfloat16_to_float(half)), half);
    }
    if (std::isnan(float16_to_float(half))) {
      ASSERT_TRUE(std::isnan(float16_to_float(float_to_float16(float16_to_float(half)))));
    } else {
      ASSERT_EQ(float_to_float16(float16_to_float(half)), half);
    }
  }
}

/// The definition: no neighbour is nearer, and of two equally near ones the even one is taken.
template <typename Encode, typename Decode>
void expect_nearest(std::uint16_t largest_finite, Encode encode, Decode decode) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200000; ++trial) {
    const auto below = static_cast<std::uint16_t>(random() % largest_finite);
    const double low = decode(below);
    const double high = decode(static_cast<std::uint16_t>(below + 1));
    const double fraction = trial % 4 == 0 ? 0.5 : std::uniform_real_distribution<double>(0, 1)(random);
    const float value = static_cast<float>(low + (high - low) * fraction);
    const double to_low = value - low;
    const double to_high = high - value;
    const bool up = to_high < to_low || (to_high == to_low && below % 2 == 1);
    ASSERT_EQ(encode(value), below + (up ? 1 : 0)) << value;
  }
}

TEST(Half, RoundsToTheNearestEven) {
  expect_nearest(0x7f7f, float_to_bfloat16, bfloat16_to_float);
  expect_nearest(0x7bff, float_to_float16, float16_to_float);
}

TEST(Half, SpansOfEveryDtype) {
  const std::vector<float> values{0, 1, 2, 3, 200};
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
    std::vector<std::byte> bytes(1 + 5 * static_cast<std::size_t>(dtype_size(dtype)));
    const std::span<std::byte> unaligned = std::span(bytes).subspan(1);
    convert_from_float(values, dtype, unaligned);
    std::vector<float> back(5);
    convert_to_float(unaligned, dtype, back);
    EXPECT_EQ(back, values) << dtype_name(dtype);
  }
  const std::vector<std::int64_t> integers{-1, 3};
  std::vector<float> floats(2);
  convert_to_float(std::as_bytes(std::span(integers)), DType::int64, floats);
  EXPECT_EQ(floats, (std::vector<float>{-1, 3}));
}

TEST(Half, RefusesSpansThatDoNotFit) {
  std::vector<std::byte> bytes(7);
  std::vector<float> values(2);
  EXPECT_THROW(convert_to_float(bytes, DType::float32, values), Error);
  EXPECT_THROW(convert_from_float(values, DType::float32, bytes), Error);
  bytes.resize(8);
  EXPECT_THROW(convert_from_float(values, DType::int32, bytes), Error);
}

}  // namespace
}  // namespace maxtext
