#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cpu/device.h"
#include "testing/compare.h"

namespace maxtext::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(ClipFactor, ScalesNormsAboveTheThresholdOnly) {
  CpuDevice device;
  const auto clip = [&](double threshold, std::vector<double> squares) {
    const Tensor in = put(*device, {static_cast<std::int64_t>(squares.size())}, squares);
    const std::vector<Tensor> out = device->apply(ClipFactor{threshold}, {in});
    std::vector<float> values = get<float>(*device, out[0]);
    values.push_back(get<float>(*device, out[1])[0]);
    return values;
  };
  EXPECT_EQ(clip(1, {9, 16}), (std::vector<float>{0.2F, 1, 5}));
  EXPECT_EQ(clip(10, {9, 16}), (std::vector<float>{1, 1, 5}));
  EXPECT_EQ(clip(0, {9, 16}), (std::vector<float>{1, 1, 5}));
  EXPECT_EQ(clip(1, {9, std::numeric_limits<double>::infinity()})[1], 0);
  EXPECT_EQ(clip(1, {std::numeric_limits<double>::quiet_NaN()})[1], 0);
}

struct Shards {
  std::vector<double> parameter = random_values<double>(9001, 1), gradient = random_values<double>(9001, 2),
                      m = random_values<double>(9001, 3, 0.1), v = random_values<double>(9001, 4, 0.1);
  Shards() {
    for (double& value : v) value *= value;
  }
};

template <typename T>
std::vector<T> as(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

template <typename T>
void expect_adamw(double tolerance) {
  CpuDevice device(2);
  const Shards s;
  const AdamW op{.b1 = 0.9, .b2 = 0.95, .epsilon = 1e-8, .epsilon_root = 1e-12, .weight_decay = 0.1};
  const std::vector<float> schedule{0.01F, 0.271F, 0.142625F}, clip{0.5F, 1};
  const Tensor parameter = put(*device, {9001}, as<T>(s.parameter));
  const std::vector<Tensor> found =
      device->apply(op, {parameter, put(*device, {9001}, as<T>(s.gradient)), put(*device, {9001}, as<T>(s.m)),
                         put(*device, {9001}, as<T>(s.v)), put(*device, {3}, schedule), put(*device, {2}, clip)});
  EXPECT_EQ(found[0].storage(), parameter.storage());
  std::vector<double> expected[3];
  for (std::size_t i = 0; i < 9001; ++i) {
    const double g = s.gradient[i] * 0.5;
    const double m = 0.9 * s.m[i] + 0.1 * g, v = 0.95 * s.v[i] + 0.05 * g * g;
    const double update =
        (m / static_cast<double>(schedule[1])) / (std::sqrt(v / static_cast<double>(schedule[2]) + 1e-12) + 1e-8) +
        0.1 * s.parameter[i];
    expected[0].push_back(s.parameter[i] - static_cast<double>(schedule[0]) * update);
    expected[1].push_back(m);
    expected[2].push_back(v);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const std::vector<T> values = get<T>(*device, found[i]);
    const std::vector<double> actual(values.begin(), values.end());
    EXPECT_TRUE(all_close(std::span<const double>(actual), std::span<const double>(expected[i]), tolerance));
  }
}

TEST(AdamW, EqualsTheFormula) {
  expect_adamw<float>(1e-6);
  expect_adamw<double>(1e-14);
}

TEST(Optimizers, LeaveEverythingWhenTheNormIsNotFinite) {
  CpuDevice device;
  const std::vector<float> parameter{1, 2}, m{3, 4}, v{5, 6};
  const Tensor gradient = put(*device, {2}, std::vector<float>{kNan, 1}),
               clip = put(*device, {2}, std::vector<float>{1, 0});
  const Tensor schedule = put(*device, {3}, std::vector<float>{0.1F, 0.1F, 0.1F});
  const std::vector<Tensor> found = device->apply(
      AdamW{}, {put(*device, {2}, parameter), gradient, put(*device, {2}, m), put(*device, {2}, v), schedule, clip});
  EXPECT_EQ(get<float>(*device, found[0]), parameter);
  EXPECT_EQ(get<float>(*device, found[1]), m);
  EXPECT_EQ(get<float>(*device, found[2]), v);
  EXPECT_EQ(get<float>(*device, device->apply_one(Sgd{}, {put(*device, {2}, parameter), gradient, schedule, clip})),
            parameter);
}

TEST(Sgd, StepsAgainstTheClippedGradient) {
  CpuDevice device;
  const Tensor parameter = put(*device, {2}, std::vector<float>{1, 2}),
               gradient = put(*device, {2}, std::vector<float>{4, -8});
  const Tensor schedule = put(*device, {3}, std::vector<float>{0.5F, 1, 1}),
               clip = put(*device, {2}, std::vector<float>{0.25F, 1});
  EXPECT_EQ(get<float>(*device, device->apply_one(Sgd{}, {parameter, gradient, schedule, clip})),
            (std::vector<float>{0.5F, 3}));
}

}  // namespace
}  // namespace maxtext::testing
