// Every *Backward op against central finite differences of its forward op in float64, and its float32 version against
// the float64 one.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "cpu/device.h"
#include "testing/compare.h"

namespace maxtext::testing {
namespace {

using Doubles = std::vector<double>;

/// Σ dy ∘ forward(x): its gradient is what the backward op must return.
using Objective = std::function<double(const Doubles& x)>;

Doubles finite_differences(Doubles x, const Objective& objective) {
  constexpr double kStep = 1e-5;
  Doubles gradient;
  for (double& value : x) {
    const double saved = value;
    value = saved + kStep;
    const double above = objective(x);
    value = saved - kStep;
    gradient.push_back((above - objective(x)) / (2 * kStep));
    value = saved;
  }
  return gradient;
}

double dot(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

struct Argument {
  Shape shape;
  Doubles values;
};

class Backward : public ::testing::Test {
 protected:
  CpuDevice device{2};

  Argument argument(Shape shape, unsigned seed) {
    const std::int64_t count = element_count(shape);
    return {std::move(shape), random_values<double>(count, seed)};
  }

  template <typename T>
  std::vector<Tensor> tensors(const std::vector<Argument>& arguments) {
    std::vector<Tensor> result;
    for (const Argument& a : arguments) {
      result.push_back(put(*device, a.shape, std::vector<T>(a.values.begin(), a.values.end())));
    }
    return result;
  }

  /// The gradient of Σ dy ∘ op(arguments) with respect to argument `which`; `extra` inputs follow in front of others.
  Doubles numeric(const Op& op, std::vector<Argument> arguments, std::size_t which, const Doubles& dy,
                  const std::vector<Tensor>& extra = {}) {
    return finite_differences(arguments[which].values, [&](const Doubles& x) {
      arguments[which].values = x;
      std::vector<Tensor> inputs = tensors<double>(arguments);
      inputs.insert(inputs.end(), extra.begin(), extra.end());
      return dot(get<double>(*device, device->apply(op, inputs)[0]), dy);
    });
  }

  void expect_gradient(const Tensor& actual, const Doubles& expected, std::string_view name) {
    const Doubles found = get<double>(*device, actual);
    EXPECT_TRUE(all_close(std::span<const double>(found), std::span<const double>(expected), 1e-8, name));
  }

  /// The op on the same numbers in float32 and float64.
  void expect_float_close(const Op& op, const std::vector<Argument>& arguments) {
    const std::vector<Tensor> narrow = device->apply(op, tensors<float>(arguments));
    const std::vector<Tensor> wide = device->apply(op, tensors<double>(arguments));
    for (std::size_t i = 0; i < wide.size(); ++i) {
      const std::vector<float> values = get<float>(*device, narrow[i]);
      const Doubles found(values.begin(), values.end());
      const Doubles expected = get<double>(*device, wide[i]);
      EXPECT_TRUE(all_close(std::span<const double>(found), std::span<const double>(expected), 3e-6, op_name(op)));
    }
  }
};

TEST_F(Backward, Linear) {
  const Argument x = argument({2, 3, 5}, 1), w = argument({4, 5}, 2), dy = argument({2, 3, 4}, 3);
  const Argument dx0 = argument({2, 3, 5}, 4), dw0 = argument({4, 5}, 5);
  const Doubles dx = numeric(Linear{}, {x, w}, 0, dy.values);
  const Doubles dw = numeric(Linear{}, {x, w}, 1, dy.values);
  expect_gradient(device->apply(LinearBackwardInput{}, tensors<double>({dy, w}))[0], dx, "dx");
  Doubles dx_added = dx, dw_added = dw;
  for (std::size_t i = 0; i < dx.size(); ++i) dx_added[i] += dx0.values[i];
  for (std::size_t i = 0; i < dw.size(); ++i) dw_added[i] += dw0.values[i];
  expect_gradient(device->apply(LinearBackwardInput{}, tensors<double>({dy, w, dx0}))[0], dx_added, "dx added");
  expect_gradient(device->apply(LinearBackwardWeight{.accumulate = false}, tensors<double>({dy, x, dw0}))[0], dw, "dw");
  expect_gradient(device->apply(LinearBackwardWeight{}, tensors<double>({dy, x, dw0}))[0], dw_added, "dw added");
  expect_float_close(LinearBackwardInput{}, {dy, w, dx0});
  expect_float_close(LinearBackwardWeight{}, {dy, x, dw0});
  expect_float_close(LinearBackwardWeight{.accumulate = false}, {dy, x, dw0});
}

TEST_F(Backward, LinearInFloatOfManySizes) {
  for (const std::int64_t rows : {1, 40, 129, 600}) {
    const Argument x = argument({rows, 70}, 1), w = argument({150, 70}, 2), dy = argument({rows, 150}, 3);
    expect_float_close(Linear{}, {x, w});
    expect_float_close(LinearBackwardInput{}, {dy, w});
    expect_float_close(LinearBackwardWeight{}, {dy, x, argument({150, 70}, 4)});
  }
}

TEST_F(Backward, Bias) {
  const Argument x = argument({3, 5}, 1), w = argument({4, 5}, 2), b = argument({4}, 3), dy = argument({3, 4}, 4);
  Doubles expected = numeric(Linear{}, {x, w, b}, 2, dy.values);
  const Argument before = argument({4}, 5);
  expect_gradient(device->apply(BiasBackward{.accumulate = false}, tensors<double>({dy, before}))[0], expected, "db");
  for (std::size_t i = 0; i < 4; ++i) expected[i] += before.values[i];
  expect_gradient(device->apply(BiasBackward{}, tensors<double>({dy, before}))[0], expected, "db added");
  expect_float_close(BiasBackward{}, {argument({300, 4}, 6), before});
}

TEST_F(Backward, RmsNorm) {
  for (const double offset : {0.0, 1.0}) {
    const RmsNorm forward{.epsilon = 1e-3, .weight_offset = offset};
    const Argument x = argument({4, 19}, 1), w = argument({19}, 2), dy = argument({4, 19}, 3), dw0 = argument({19}, 4);
    RmsNormBackward backward{.epsilon = 1e-3, .weight_offset = offset, .accumulate = false};
    std::vector<Tensor> found = device->apply(backward, tensors<double>({dy, x, w, dw0}));
    Doubles dw = numeric(forward, {x, w}, 1, dy.values);
    expect_gradient(found[0], numeric(forward, {x, w}, 0, dy.values), "dx");
    expect_gradient(found[1], dw, "dw");
    backward.accumulate = true;
    for (std::size_t i = 0; i < dw.size(); ++i) dw[i] += dw0.values[i];
    expect_gradient(device->apply(backward, tensors<double>({dy, x, w, dw0}))[1], dw, "dw added");
    expect_float_close(backward, {argument({300, 19}, 5), argument({300, 19}, 6), w, dw0});
  }
}

TEST_F(Backward, GatedActivation) {
  for (const Activation activation : {Activation::silu, Activation::gelu_tanh}) {
    const Argument gate = argument({50}, 1), up = argument({50}, 2), dy = argument({50}, 3);
    const std::vector<Tensor> found =
        device->apply(GatedActivationBackward{activation}, tensors<double>({dy, gate, up}));
    expect_gradient(found[0], numeric(GatedActivation{activation}, {gate, up}, 0, dy.values), "dgate");
    expect_gradient(found[1], numeric(GatedActivation{activation}, {gate, up}, 1, dy.values), "dup");
    expect_float_close(GatedActivationBackward{activation},
                       {argument({9000}, 4), argument({9000}, 5), argument({9000}, 6)});
  }
}

TEST_F(Backward, InverseRopeIsTheAdjoint) {
  const Tensor positions = put(*device, {1, 3}, std::vector<std::int32_t>{2, 7, 100});
  const std::vector<Tensor> tables =
      device->apply(RopeTable{.inverse_frequencies = {1, 0.3, 0.1}, .dtype = DType::float64}, {positions});
  const Argument x = argument({1, 3, 2, 6}, 1), dy = argument({1, 3, 2, 6}, 2);
  const Tensor dx = device->apply_one(Rope{.inverse = true}, {tensors<double>({dy})[0], tables[0], tables[1]});
  expect_gradient(dx, numeric(Rope{}, {x}, 0, dy.values, tables), "dx");
}

TEST_F(Backward, Embedding) {
  const Argument table = argument({5, 3}, 1), dy = argument({6, 3}, 2), before = argument({5, 3}, 3);
  const Tensor ids = put(*device, {6}, std::vector<std::int32_t>{4, 0, 4, 2, 4, 0});
  Doubles expected = numeric(maxtext::Embedding{}, {table}, 0, dy.values, {ids});
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before.values[i];
  const std::vector<Tensor> in = tensors<double>({dy, before});
  expect_gradient(device->apply_one(EmbeddingBackward{}, {in[0], ids, in[1]}), expected, "dtable");
}

TEST_F(Backward, EmbeddingOfAPartOfTheTable) {
  const Argument table = argument({3, 2}, 1), dy = argument({7, 2}, 2), before = argument({3, 2}, 3);
  const Tensor ids = put(*device, {7}, std::vector<std::int32_t>{4, 1, 3, 5, 0, 6, 4});
  const Tensor first = put(*device, {}, std::vector<std::int32_t>{3});
  const Doubles stored = numeric(maxtext::Embedding{}, {table}, 0, dy.values, {ids, first});
  Doubles added = stored;
  for (std::size_t i = 0; i < added.size(); ++i) added[i] += before.values[i];
  for (const bool accumulate : {true, false}) {
    const std::vector<Tensor> in = tensors<double>({dy, before});
    expect_gradient(device->apply_one(EmbeddingBackward{accumulate}, {in[0], ids, in[1], first}),
                    accumulate ? added : stored, "dtable");
  }
}

TEST_F(Backward, EmbeddingAddsInTheOrderOfTokens) {
  // In float32 (1e8 + 1) - 1e8 is 0 and (1e8 - 1e8) + 1 is 1: only the order of tokens gives these.
  const Tensor ids = put(*device, {3}, std::vector<std::int32_t>{0, 0, 0});
  const auto sum = [&](std::vector<float> dy) {
    const Tensor destination = put(*device, {1, 1}, std::vector<float>{0});
    return get<float>(*device, device->apply_one(EmbeddingBackward{}, {put(*device, {3, 1}, dy), ids, destination}))[0];
  };
  EXPECT_EQ(sum({1e8F, 1, -1e8F}), 0);
  EXPECT_EQ(sum({1e8F, -1e8F, 1}), 1);
}

}  // namespace
}  // namespace maxtext::testing
