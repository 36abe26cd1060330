// Every op without gradient against its formula, written down plainly in double.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "cpu/device.h"
#include "testing/compare.h"

namespace maxtext::testing {
namespace {

using Doubles = std::vector<double>;

template <typename T>
class Forward : public ::testing::Test {
 protected:
  CpuDevice device{2};
  static constexpr double kTolerance = std::is_same_v<T, float> ? 2e-6 : 1e-14;

  /// The same numbers in double, for the reference.
  Doubles wide(const Tensor& tensor) {
    const std::vector<T> values = get<T>(*device, tensor);
    return {values.begin(), values.end()};
  }
  void expect_close(const Tensor& actual, const Doubles& expected, std::string_view name) {
    EXPECT_TRUE(all_close(std::span<const double>(wide(actual)), std::span<const double>(expected), kTolerance, name));
  }
};

using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Forward, Reals);

TYPED_TEST(Forward, Linear) {
  for (const std::int64_t rows : {1, 5, 40}) {
    const Tensor x = random<TypeParam>(*this->device, {1, rows, 37}, 1);
    const Tensor w = random<TypeParam>(*this->device, {11, 37}, 2);
    const Tensor b = random<TypeParam>(*this->device, {11}, 3);
    const Doubles xs = this->wide(x), ws = this->wide(w), bs = this->wide(b);
    Doubles plain, biased;
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      for (std::size_t o = 0; o < 11; ++o) {
        double sum = 0;
        for (std::size_t i = 0; i < 37; ++i) sum += xs[r * 37 + i] * ws[o * 37 + i];
        plain.push_back(sum);
        biased.push_back(sum + bs[o]);
      }
    }
    this->expect_close(this->device->apply_one(Linear{}, {x, w}), plain, "linear");
    this->expect_close(this->device->apply_one(Linear{}, {x, w, b}), biased, "linear with bias");
  }
}

TYPED_TEST(Forward, SoftCap) {
  const Tensor x = random<TypeParam>(*this->device, {3, 4000}, 1);
  Doubles expected;
  for (const double value : this->wide(x)) expected.push_back(0.8 * std::tanh(value / 0.8));
  this->expect_close(this->device->apply_one(SoftCap{.cap = 0.8}, {x}), expected, "soft cap");
  const Tensor in_place = this->device->apply_one(SoftCap{.cap = 0.8, .in_place = true}, {x});
  EXPECT_EQ(in_place.storage(), x.storage());
  this->expect_close(in_place, expected, "soft cap in place");
}

TYPED_TEST(Forward, RmsNorm) {
  for (const std::int64_t n : {1, 8, 16, 37, 128}) {
    const Tensor x = random<TypeParam>(*this->device, {3, n}, 1);
    const Tensor w = random<TypeParam>(*this->device, {n}, 2);
    const Doubles xs = this->wide(x), ws = this->wide(w);
    Doubles expected;
    const auto width = static_cast<std::size_t>(n);
    for (std::size_t r = 0; r < 3; ++r) {
      double squares = 0;
      for (std::size_t i = 0; i < width; ++i) squares += xs[r * width + i] * xs[r * width + i];
      for (std::size_t i = 0; i < width; ++i) {
        expected.push_back(xs[r * width + i] / std::sqrt(squares / static_cast<double>(n) + 1e-5) * (ws[i] + 1));
      }
    }
    this->expect_close(this->device->apply_one(RmsNorm{.epsilon = 1e-5, .weight_offset = 1}, {x, w}), expected,
                       "rms_norm");
  }
}

TYPED_TEST(Forward, GatedActivations) {
  const Tensor gate = random<TypeParam>(*this->device, {20001}, 1, 3);
  const Tensor up = random<TypeParam>(*this->device, {20001}, 2);
  const Doubles g = this->wide(gate), u = this->wide(up);
  Doubles silu, gelu;
  for (std::size_t i = 0; i < g.size(); ++i) {
    silu.push_back(g[i] / (1 + std::exp(-g[i])) * u[i]);
    const double inner = std::sqrt(2 / M_PI) * (g[i] + 0.044715 * g[i] * g[i] * g[i]);
    gelu.push_back(g[i] / 2 * (1 + std::tanh(inner)) * u[i]);
  }
  this->expect_close(this->device->apply_one(GatedActivation{Activation::silu}, {gate, up}), silu, "silu");
  this->expect_close(this->device->apply_one(GatedActivation{Activation::gelu_tanh}, {gate, up}), gelu, "gelu");
}

TYPED_TEST(Forward, GatedActivationsSaturate) {
  const std::vector<TypeParam> gate{-1e30F, -200, -100, 0, 100, 200, 1e15F};
  const Tensor g = put(*this->device, {7}, gate);
  const Tensor up = put(*this->device, {7}, std::vector<TypeParam>(7, 1));
  for (const Activation activation : {Activation::silu, Activation::gelu_tanh}) {
    const std::vector<TypeParam> y =
        get<TypeParam>(*this->device, this->device->apply_one(GatedActivation{activation}, {g, up}));
    for (std::size_t i = 0; i < 7; ++i)
      EXPECT_NEAR(y[i], i < 4 ? 0 : gate[i], 1e-7 * std::abs(i < 4 ? 1 : gate[i])) << gate[i];
  }
}

TYPED_TEST(Forward, Rope) {
  const Tensor positions = put(*this->device, {2, 2}, std::vector<std::int32_t>{0, 3, 1000, 131071});
  const RopeTable table{
      .inverse_frequencies = {1, 0.01, 0.0001}, .attention_factor = 1.5, .dtype = dtype_of<TypeParam>()};
  const std::vector<Tensor> tables = this->device->apply(table, {positions});
  const Tensor x = random<TypeParam>(*this->device, {2, 2, 3, 6}, 1);
  const Doubles xs = this->wide(x);
  Doubles expected(xs.size());
  const std::vector<double> at{0, 3, 1000, 131071};
  for (std::size_t p = 0; p < 4; ++p) {
    for (std::size_t h = 0; h < 3; ++h) {
      for (std::size_t i = 0; i < 3; ++i) {
        const double angle = at[p] * table.inverse_frequencies[i];
        const double c = 1.5 * std::cos(angle), s = 1.5 * std::sin(angle);
        const std::size_t first = (p * 3 + h) * 6 + i;
        expected[first] = xs[first] * c - xs[first + 3] * s;
        expected[first + 3] = xs[first + 3] * c + xs[first] * s;
      }
    }
  }
  this->expect_close(this->device->apply_one(Rope{}, {x, tables[0], tables[1]}), expected, "rope");
}

TYPED_TEST(Forward, AddScaleFill) {
  const Tensor a = random<TypeParam>(*this->device, {9001}, 1);
  const Tensor b = random<TypeParam>(*this->device, {9001}, 2);
  const Doubles as = this->wide(a), bs = this->wide(b);
  Doubles sum, scaled;
  for (std::size_t i = 0; i < as.size(); ++i) {
    sum.push_back(as[i] + bs[i]);
    scaled.push_back(-0.25 * as[i]);
  }
  this->expect_close(this->device->apply_one(Add{}, {a, b}), sum, "add");
  this->expect_close(this->device->apply_one(Scale{-0.25}, {a}), scaled, "scale");
  const Fill fill{.spec = {{3, 5}, dtype_of<TypeParam>()}, .value = 2.5};
  this->expect_close(this->device->apply_one(fill, {}), Doubles(15, 2.5), "fill");
  const Tensor in_place = this->device->apply_one(Add{.in_place = true}, {a, b});
  EXPECT_EQ(in_place.storage(), a.storage());
  this->expect_close(in_place, sum, "add in place");
}

TYPED_TEST(Forward, Reductions) {
  for (const std::int64_t n : {0, 1, 15, 16, 17, 40000}) {
    const Tensor x = random<TypeParam>(*this->device, {n}, 1);
    const Doubles xs = this->wide(x);
    long double sum = 0, squares = 0;
    for (const double value : xs) {
      sum += value;
      squares += static_cast<long double>(value) * value;
    }
    const double tolerance = 1e-13 * static_cast<double>(n + 1);
    EXPECT_NEAR(get<double>(*this->device, this->device->apply_one(Sum{}, {x}))[0], static_cast<double>(sum),
                tolerance);
    const Tensor ranges = put(*this->device, {2, 2}, std::vector<std::int64_t>{0, n, n / 2, n / 2});
    const Doubles found = get<double>(*this->device, this->device->apply_one(SumOfSquares{}, {x, ranges}));
    EXPECT_NEAR(found[0], static_cast<double>(squares), tolerance);
    EXPECT_EQ(found[1], 0);
  }
}

TYPED_TEST(Forward, Layout) {
  std::vector<TypeParam> values(24);
  for (std::size_t i = 0; i < 24; ++i) values[i] = static_cast<TypeParam>(i);
  const Tensor x = put(*this->device, {2, 3, 4}, values);
  this->expect_close(this->device->apply_one(Slice{.axis = 1, .start = 1, .length = 2}, {x}),
                     {4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23}, "slice");
  this->expect_close(this->device->apply_one(Slice{.axis = 2, .start = 3, .length = 1}, {x}), {3, 7, 11, 15, 19, 23},
                     "slice of the last axis");
  const Tensor left = this->device->apply_one(Slice{.axis = 2, .start = 0, .length = 1}, {x});
  const Tensor right = this->device->apply_one(Slice{.axis = 2, .start = 1, .length = 3}, {x});
  this->expect_close(this->device->apply_one(Concat{.axis = 2}, {left, right}), this->wide(x), "concat undoes slice");
  this->expect_close(this->device->apply_one(Transpose{{2, 0, 1}}, {x}),
                     {0, 4, 8, 12, 16, 20, 1, 5, 9, 13, 17, 21, 2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23},
                     "transpose");
  this->expect_close(this->device->apply_one(Transpose{{1, 0, 2}}, {x}),
                     {0, 1, 2, 3, 12, 13, 14, 15, 4, 5, 6, 7, 16, 17, 18, 19, 8, 9, 10, 11, 20, 21, 22, 23},
                     "transpose of runs");
  const Tensor index = put(*this->device, {3}, std::vector<std::int32_t>{1, 0, 1});
  const Tensor flat = this->device->apply_one(Reshape{{2, 12}}, {x});
  Doubles rows;
  for (const int row : {1, 0, 1}) {
    for (int i = 0; i < 12; ++i) rows.push_back(row * 12 + i);
  }
  this->expect_close(this->device->apply_one(Take{}, {flat, index}), rows, "take");
}

TYPED_TEST(Forward, Embedding) {
  const Tensor table = random<TypeParam>(*this->device, {5, 3}, 1);
  const Tensor ids = put(*this->device, {1, 4}, std::vector<std::int32_t>{4, 0, 4, 2});
  const Doubles rows = this->wide(table);
  Doubles expected;
  for (const std::size_t id : {4U, 0U, 4U, 2U}) {
    for (std::size_t i = 0; i < 3; ++i) expected.push_back(rows[id * 3 + i]);
  }
  const Tensor y = this->device->apply_one(Embedding{}, {table, ids});
  EXPECT_EQ(y.shape(), (Shape{1, 4, 3}));
  this->expect_close(y, expected, "embedding");
  const Tensor bad = put(*this->device, {1, 1}, std::vector<std::int32_t>{5});
  EXPECT_THROW(this->device->apply_one(Embedding{}, {table, bad}), Error);
}

TYPED_TEST(Forward, EmbeddingOfAPartOfTheTable) {
  const Tensor table = random<TypeParam>(*this->device, {3, 2}, 1);
  const Doubles rows = this->wide(table);
  const std::vector<std::int32_t> ids{4, 1, 3, 5, 0, 6, -1, std::numeric_limits<std::int32_t>::min()};
  const Tensor first = put(*this->device, {}, std::vector<std::int32_t>{3});
  const Tensor y = this->device->apply_one(Embedding{}, {table, put(*this->device, {8}, ids), first});
  Doubles expected(16, 0.0);
  for (const auto& [token, row] : {std::pair<std::size_t, std::size_t>{0, 1}, {2, 0}, {3, 2}}) {
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(2 * row), 2,
                expected.begin() + static_cast<std::ptrdiff_t>(2 * token));
  }
  EXPECT_EQ(this->wide(y), expected);
}

TYPED_TEST(Forward, MaskedRowsHoldZeros) {
  constexpr TypeParam kNaN = std::numeric_limits<TypeParam>::quiet_NaN();
  const Tensor x = put(*this->device, {2, 2, 2}, std::vector<TypeParam>{kNaN, 1, 2, 3, 4, -kNaN, 5, 6});
  const Tensor weights = put(*this->device, {2, 2}, std::vector<float>{0, 0.5F, 0, -1});
  EXPECT_EQ(this->wide(this->device->apply_one(MaskRows{}, {x, weights})), (Doubles{0, 0, 2, 3, 0, 0, 5, 6}));
}

TEST(Cast, RoundsToNearestEvenAndBack) {
  CpuDevice device;
  const Tensor x = put(*device, {4}, std::vector<float>{1.00390625F, 1.01171875F, -3.0F, 65504.0F});
  const Tensor bf16 = device->apply_one(Cast{DType::bfloat16}, {x});
  EXPECT_EQ(bf16.dtype(), DType::bfloat16);
  // 1 + 2^-8 and 1 + 3·2^-8 lie between bfloat16 neighbours: ties go to the even one.
  EXPECT_EQ(get<float>(*device, device->apply_one(Cast{DType::float32}, {bf16})),
            (std::vector<float>{1.0F, 1.015625F, -3.0F, 65536.0F}));
  const Tensor f16 = device->apply_one(Cast{DType::float16}, {x});
  EXPECT_EQ(get<float>(*device, device->apply_one(Cast{DType::float32}, {f16})),
            (std::vector<float>{1.00390625F, 1.01171875F, -3.0F, 65504.0F}));
  const Tensor wide = put(*device, {1}, std::vector<double>{1.0 / 3});
  EXPECT_EQ(get<double>(*device, device->apply_one(Cast{DType::float64}, {wide}))[0], 1.0 / 3);
  EXPECT_THROW(device->apply_one(Scale{2}, {bf16}), Error);
}

}  // namespace
}  // namespace maxtext::testing
