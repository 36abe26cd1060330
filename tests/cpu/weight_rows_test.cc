// The kernels that multiply few rows by a weight as it is stored, on every instruction set of this machine.
#include "engines/cpu/kernels/weight_rows.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "cpu/device.h"
#include "tensor/half.h"
#include "testing/compare.h"

namespace maxtext::testing {
namespace {

/// A copy of some bytes that ends where the address space does: a read beyond them ends the program.
class GuardedCopy {
 public:
  explicit GuardedCopy(std::span<const std::byte> bytes) {
    constexpr std::size_t kPage = 4096;
    const std::size_t pages = (bytes.size() + kPage - 1) / kPage * kPage;
    size_ = pages + kPage;
    base_ = static_cast<std::byte*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + pages, kPage, PROT_NONE) != 0) fail("mmap failed");
    data_ = base_ + pages - bytes.size();
    std::memcpy(data_, bytes.data(), bytes.size());
  }
  ~GuardedCopy() { munmap(base_, size_); }
  GuardedCopy(const GuardedCopy&) = delete;
  GuardedCopy& operator=(const GuardedCopy&) = delete;

  const std::byte* data() const { return data_; }

 private:
  std::size_t size_ = 0;
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
};

class WeightRowsTest : public ::testing::TestWithParam<std::tuple<InstructionSet, DType>> {
 protected:
  DType stored = std::get<1>(GetParam());
  const WeightRows& kernels = weight_rows(std::get<0>(GetParam()), stored);

  std::vector<std::byte> encoded(const std::vector<float>& values) const {
    std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(dtype_size(stored)));
    convert_from_float(values, stored, bytes);
    return bytes;
  }

  /// Outputs [first, last) of a product; others stay NaN.
  std::vector<float> multiply(const std::vector<float>& x, const std::byte* weight, std::int64_t rows,
                              std::int64_t outputs, std::int64_t depth, std::int64_t first, std::int64_t last) const {
    const std::int64_t packed_depth = (depth + packed_row_step - 1) / packed_row_step * packed_row_step;
    std::vector<float> packed(static_cast<std::size_t>(rows * packed_depth), NAN);
    for (std::int64_t row = 0; row < rows; ++row) {
      kernels.pack_row(x.data() + row * depth, depth, packed.data() + row * packed_depth);
    }
    std::vector<float> y(static_cast<std::size_t>(rows * outputs), NAN);
    kernels.multiply({rows, outputs, depth, packed.data(), packed_depth, weight, y.data()}, first, last);
    return y;
  }
};

constexpr std::int64_t kMostRows = 17;

TEST_P(WeightRowsTest, ProductsAreThoseOfDoubles) {
  for (const std::int64_t depth : {1, 3, 8, 31, 32, 33, 63, 100, 257}) {
    for (const std::int64_t outputs : {1, 2, 3, 4, 5, 7, 8, 22}) {
      const std::vector<float> x = random_values<float>(kMostRows * depth, 1);
      const std::vector<std::byte> bytes = encoded(random_values<float>(outputs * depth, 2));
      std::vector<float> w(static_cast<std::size_t>(outputs * depth));
      convert_to_float(bytes, stored, w);
      const GuardedCopy weight(bytes);
      for (std::int64_t rows = 1; rows <= kMostRows; ++rows) {
        const std::vector<float> y = multiply(x, weight.data(), rows, outputs, depth, 0, outputs);
        for (std::int64_t i = 0; i < rows * outputs; ++i) {
          double sum = 0;
          double size = 0;
          for (std::int64_t k = 0; k < depth; ++k) {
            const double product = double{x[static_cast<std::size_t>(i / outputs * depth + k)]} *
                                   w[static_cast<std::size_t>(i % outputs * depth + k)];
            sum += product;
            size += std::abs(product);
          }
          ASSERT_NEAR(y[static_cast<std::size_t>(i)], sum, 1e-6 * size)
              << rows << " rows, " << outputs << " outputs, depth " << depth << ", element " << i;
        }
      }
    }
  }
}

TEST_P(WeightRowsTest, ARowDependsOnNeitherTheOthersNorThePartOfTheOutputs) {
  for (const std::int64_t depth : {5, 64, 300}) {
    constexpr std::int64_t kOutputs = 23;
    const std::vector<float> x = random_values<float>(kMostRows * depth, 1);
    const std::vector<std::byte> weight = encoded(random_values<float>(kOutputs * depth, 2));
    const std::vector<float> all = multiply(x, weight.data(), kMostRows, kOutputs, depth, 0, kOutputs);
    for (std::int64_t rows = 1; rows <= kMostRows; ++rows) {
      const std::int64_t skipped = kMostRows - rows;
      const std::vector<float> part(x.begin() + skipped * depth, x.end());
      const std::vector<float> expected(all.begin() + skipped * kOutputs, all.end());
      EXPECT_TRUE(bitwise_equal(multiply(part, weight.data(), rows, kOutputs, depth, 0, kOutputs), expected))
          << rows << " rows";
    }
    for (std::int64_t first = 0; first < kOutputs; first += 3) {
      const std::vector<float> y = multiply(x, weight.data(), kMostRows, kOutputs, depth, first, kOutputs);
      for (std::int64_t i = 0; i < kMostRows * kOutputs; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (i % kOutputs < first) {
          EXPECT_TRUE(std::isnan(y[at])) << "output " << i % kOutputs << " is not within the part";
        } else {
          EXPECT_EQ(y[at], all[at]);
        }
      }
    }
  }
}

TEST_P(WeightRowsTest, WeightsMayLieAtAnyMultipleOfTheirElements) {
  constexpr std::int64_t kOutputs = 6, kDepth = 70, kRows = 3;
  const std::vector<float> x = random_values<float>(kRows * kDepth, 1);
  const std::vector<std::byte> weight = encoded(random_values<float>(kOutputs * kDepth, 2));
  const std::vector<float> expected = multiply(x, weight.data(), kRows, kOutputs, kDepth, 0, kOutputs);
  const auto element = static_cast<std::size_t>(dtype_size(stored));
  for (std::size_t offset = element; offset < 64; offset += element) {
    std::vector<std::byte> moved(offset);
    moved.insert(moved.end(), weight.begin(), weight.end());
    EXPECT_TRUE(bitwise_equal(multiply(x, moved.data() + offset, kRows, kOutputs, kDepth, 0, kOutputs), expected));
    std::vector<float> floats(kDepth), aligned(kDepth);
    kernels.widen(moved.data() + offset, kDepth, floats.data());
    kernels.widen(weight.data(), kDepth, aligned.data());
    EXPECT_TRUE(bitwise_equal(floats, aligned));
  }
}

TEST_P(WeightRowsTest, InfinitiesAndNanReachTheirOutputsOnly) {
  constexpr std::int64_t kOutputs = 5, kDepth = 40;
  const std::vector<float> x(kDepth, 1.0F);
  std::vector<float> w(kOutputs * kDepth, 1.0F);
  w[1 * kDepth + 7] = INFINITY;
  w[2 * kDepth + 39] = -INFINITY;
  w[4 * kDepth + 20] = NAN;
  const std::vector<float> y = multiply(x, encoded(w).data(), 1, kOutputs, kDepth, 0, kOutputs);
  EXPECT_EQ(y[0], 40.0F);
  EXPECT_EQ(y[1], INFINITY);
  EXPECT_EQ(y[2], -INFINITY);
  EXPECT_EQ(y[3], 40.0F);
  EXPECT_TRUE(std::isnan(y[4]));
}

TEST_P(WeightRowsTest, WideningIsExactForEveryBitPatternAndLength) {
  if (dtype_size(stored) != 2) GTEST_SKIP() << "floats are not widened";
  std::vector<std::uint16_t> patterns(65536);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(patterns));
  std::vector<float> expected(patterns.size()), actual(patterns.size());
  convert_to_float(bytes, stored, expected);
  kernels.widen(bytes.data(), 65536, actual.data());
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(actual[i])) << i;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(actual[i]), std::bit_cast<std::uint32_t>(expected[i])) << i;
    }
  }
  for (std::int64_t length = 0; length < 40; ++length) {
    const GuardedCopy copy(bytes.first(static_cast<std::size_t>(2 * length)));
    std::vector<float> part(41, -7.0F);
    kernels.widen(copy.data(), length, part.data());
    for (std::int64_t i = 0; i < 41; ++i) {
      EXPECT_EQ(part[static_cast<std::size_t>(i)], i < length ? expected[static_cast<std::size_t>(i)] : -7.0F);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, WeightRowsTest,
                         ::testing::Combine(::testing::ValuesIn(available_instruction_sets()),
                                            ::testing::Values(DType::float32, DType::bfloat16, DType::float16)),
                         [](const auto& instance) {
                           return std::string(instruction_set_name(std::get<0>(instance.param))) + "_" +
                                  std::string(dtype_name(std::get<1>(instance.param)));
                         });

TEST(WeightRows, OtherDtypesAreRefused) {
  EXPECT_THROW(weight_rows(InstructionSet::baseline, DType::float64), Error);
  EXPECT_THROW(weight_rows(active_instruction_set(), DType::int32), Error);
}

}  // namespace
}  // namespace maxtext::testing
