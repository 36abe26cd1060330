// Ops on parameters as they are stored, bfloat16 and float16 beside float32 activations, and products of few rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "cpu/device.h"
#include "tensor/half.h"
#include "testing/compare.h"

namespace maxtext::testing {
namespace {

using Floats = std::vector<float>;

/// Values as a parameter stored in `dtype`, and as floats after that rounding.
struct Parameter {
  Tensor tensor;
  Floats values;
};

Parameter parameter(Engine& engine, Shape shape, DType dtype, unsigned seed) {
  const TensorSpec spec{std::move(shape), dtype};
  Floats values = random_values<float>(spec.elements(), seed);
  std::vector<std::byte> bytes(static_cast<std::size_t>(spec.bytes()));
  convert_from_float(values, dtype, bytes);
  convert_to_float(bytes, dtype, values);
  return {engine.input(spec, bytes), std::move(values)};
}

/// x · wᵀ + bias in double.
std::vector<double> product(const Floats& x, const Floats& w, const Floats& bias, std::int64_t depth) {
  const auto width = static_cast<std::size_t>(depth);
  std::vector<double> y;
  for (std::size_t row = 0; row < x.size() / width; ++row) {
    for (std::size_t o = 0; o < w.size() / width; ++o) {
      double sum = bias.empty() ? 0 : bias[o];
      for (std::size_t k = 0; k < width; ++k) sum += double{x[row * width + k]} * w[o * width + k];
      y.push_back(sum);
    }
  }
  return y;
}

class StoredWeights : public ::testing::TestWithParam<DType> {
 protected:
  DType stored = GetParam();
};

TEST_P(StoredWeights, LinearIsTheProductOfTheStoredValues) {
  for (const bool fast : {false, true}) {
    CpuDevice device({.threads = 2, .fast_few_rows = fast});
    for (const auto& [out, in] : std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {7, 33}, {130, 100}}) {
      const Parameter w = parameter(*device, {out, in}, stored, 2);
      for (const DType bias_dtype : {DType::float32, stored}) {
        const Parameter bias = parameter(*device, {out}, bias_dtype, 3);
        for (const std::int64_t rows : {1, 2, 3, 5, 8, 13, 16, 17, 60}) {
          const Floats x = random_values<float>(rows * in, 1);
          const Tensor rows_of_x = put(*device, {1, rows, in}, x);
          for (const bool biased : {false, true}) {
            const Tensor y = biased ? device->apply_one(Linear{}, {rows_of_x, w.tensor, bias.tensor})
                                    : device->apply_one(Linear{}, {rows_of_x, w.tensor});
            ASSERT_EQ(y.spec(), (TensorSpec{{1, rows, out}, DType::float32}));
            const Floats values = get<float>(*device, y);
            const std::vector<double> found(values.begin(), values.end());
            EXPECT_TRUE(all_close(found, product(x, w.values, biased ? bias.values : Floats{}, in), 2e-6))
                << rows << " rows, " << out << "x" << in << (fast ? ", fast" : "");
          }
        }
      }
    }
  }
}

/// 1200 x 2048 floats are more than is widened at a time.
TEST_P(StoredWeights, LargeWeightsAreMultipliedInParts) {
  CpuDevice device(2);
  constexpr std::int64_t kOut = 1200, kIn = 2048, kRows = 3;
  const Parameter w = parameter(*device, {kOut, kIn}, stored, 2);
  const Floats x = random_values<float>(kRows * kIn, 1);
  const Floats y = get<float>(*device, device->apply_one(Linear{}, {put(*device, {kRows, kIn}, x), w.tensor}));
  EXPECT_TRUE(all_close(std::vector<double>(y.begin(), y.end()), product(x, w.values, {}, kIn), 2e-6));
}

TEST_P(StoredWeights, ARowDependsOnItselfOnlyWithinEachWayToMultiply) {
  constexpr std::int64_t kRows = 210;
  for (const auto& [out, in] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 3}, {100, 64}, {513, 700}, {1100, 2048}}) {
    CpuDevice slow(2), fast({.threads = 2, .fast_few_rows = true}), alone({.threads = 1, .fast_few_rows = true});
    const Floats x = random_values<float>(kRows * in, 1);
    const Tensor w = parameter(*slow, {out, in}, stored, 2).tensor;
    const auto linear = [&, i = in](CpuDevice& device, std::int64_t first, std::int64_t rows) {
      const Floats part(x.begin() + first * i, x.begin() + (first + rows) * i);
      const Tensor weight = device->borrow(w.spec(), slow->host_bytes(w), nullptr);
      return get<float>(*device, device->apply_one(Linear{}, {put(*device, {rows, i}, part), weight}));
    };
    const auto rows_of = [o = out](const Floats& all, std::int64_t first, std::int64_t rows) {
      return Floats(all.begin() + first * o, all.begin() + (first + rows) * o);
    };
    const std::string size = std::to_string(out) + "x" + std::to_string(in);
    const Floats many = linear(slow, 0, kRows);
    EXPECT_TRUE(bitwise_equal(linear(fast, 0, kRows), many)) << size;
    for (const std::int64_t rows : {1, 16, 17, 47, 49, 100}) {
      EXPECT_TRUE(bitwise_equal(linear(slow, 3, rows), rows_of(many, 3, rows))) << size << ", rows " << rows;
      if (rows <= 16) continue;
      EXPECT_TRUE(bitwise_equal(linear(alone, 5, rows), rows_of(many, 5, rows))) << size << ", rows " << rows;
    }
    const Floats few = linear(fast, 0, 16);
    for (const std::int64_t rows : {1, 2, 3, 4, 7, 15, 16}) {
      EXPECT_TRUE(bitwise_equal(linear(fast, 16 - rows, rows), rows_of(few, 16 - rows, rows))) << size << ", " << rows;
      EXPECT_TRUE(bitwise_equal(linear(alone, 0, rows), rows_of(few, 0, rows))) << size << ", " << rows;
    }
  }
}

TEST_P(StoredWeights, EmbeddingGivesTheStoredRows) {
  CpuDevice device(2);
  const Parameter table = parameter(*device, {11, 37}, stored, 1);
  const std::vector<std::int32_t> ids{10, 0, 3, 3, 7, 10};
  const Tensor y = device->apply_one(Embedding{}, {table.tensor, put(*device, {2, 3}, ids)});
  EXPECT_EQ(y.spec(), (TensorSpec{{2, 3, 37}, DType::float32}));
  Floats expected;
  for (const std::int32_t id : ids) {
    expected.insert(expected.end(), table.values.begin() + id * 37, table.values.begin() + (id + 1) * 37);
  }
  EXPECT_TRUE(bitwise_equal(get<float>(*device, y), expected));
  EXPECT_THAT(
      [&] {
        device->apply_one(Embedding{}, {table.tensor, put(*device, {2}, std::vector<std::int32_t>{0, 11})});
      },
      ::testing::ThrowsMessage<Error>("embedding: id 11 at 1 is not within [0, 11)"));
}

TEST_P(StoredWeights, EmbeddingOfAPartOfTheTable) {
  CpuDevice device(2);
  const Parameter table = parameter(*device, {4, 37}, stored, 1);
  const Tensor ids = put(*device, {3}, std::vector<std::int32_t>{9, 12, 13});
  const Tensor first = put(*device, {}, std::vector<std::int32_t>{9});
  Floats expected(3 * 37, 0.0F);
  std::copy_n(table.values.begin(), 37, expected.begin());
  std::copy_n(table.values.begin() + 3 * 37, 37, expected.begin() + 37);
  EXPECT_TRUE(bitwise_equal(get<float>(*device, device->apply_one(Embedding{}, {table.tensor, ids, first})), expected));
}

TEST_P(StoredWeights, NormsAreThoseOfTheStoredValues) {
  CpuDevice device(2);
  // Rows of a hidden state, and of the heads of queries.
  for (const Shape& shape : {Shape{1, 1, 576}, Shape{2, 5, 9, 64}, Shape{3, 1}}) {
    const Parameter scale = parameter(*device, {shape.back()}, stored, 1);
    const Tensor wide = put(*device, {shape.back()}, scale.values);
    const Tensor x = random<float>(*device, shape, 2);
    const RmsNorm norm{.epsilon = 1e-5, .weight_offset = 1};
    EXPECT_TRUE(bitwise_equal(get<float>(*device, device->apply_one(norm, {x, scale.tensor})),
                              get<float>(*device, device->apply_one(norm, {x, wide}))));
  }
}

INSTANTIATE_TEST_SUITE_P(All, StoredWeights, ::testing::Values(DType::float32, DType::bfloat16, DType::float16),
                         [](const auto& instance) { return std::string(dtype_name(instance.param)); });

TEST(FewRows, AreFasterOnlyWhereTheEngineWasAskedTo) {
  // Training relies on one row being as one of many: without the option nothing changes.
  CpuDevice plain(1), fast({.threads = 1, .fast_few_rows = true});
  const Floats x = random_values<float>(17 * 300, 1), w = random_values<float>(70 * 300, 2);
  const auto first_row = [&](CpuDevice& device, std::int64_t rows) {
    const Tensor part = put(*device, {rows, 300}, Floats(x.begin(), x.begin() + rows * 300));
    Floats y = get<float>(*device, device->apply_one(Linear{}, {part, put(*device, {70, 300}, w)}));
    y.resize(70);
    return y;
  };
  EXPECT_TRUE(bitwise_equal(first_row(plain, 1), first_row(plain, 17)));
  EXPECT_TRUE(bitwise_equal(first_row(fast, 17), first_row(plain, 17)));
  EXPECT_FALSE(bitwise_equal(first_row(fast, 1), first_row(plain, 1)));
}

TEST(FewRows, NoRowsAndNoOutputs) {
  CpuDevice device({.threads = 2, .fast_few_rows = true});
  const Parameter w = parameter(*device, {5, 3}, DType::bfloat16, 1);
  EXPECT_EQ(device->apply_one(Linear{}, {device->allocate({{0, 3}, DType::float32}), w.tensor}).elements(), 0);
  const Parameter none = parameter(*device, {0, 3}, DType::bfloat16, 1);
  EXPECT_EQ(device->apply_one(Linear{}, {random<float>(*device, {2, 3}, 1), none.tensor}).elements(), 0);
  const Parameter flat = parameter(*device, {5, 0}, DType::bfloat16, 1);
  EXPECT_EQ(get<float>(*device, device->apply_one(Linear{}, {random<float>(*device, {1, 0}, 1), flat.tensor})),
            Floats(5, 0.0F));
}

}  // namespace
}  // namespace maxtext::testing
