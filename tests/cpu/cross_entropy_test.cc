#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cpu/cross_entropy_case.h"

namespace maxtext::testing {
namespace {

TEST(LinearCrossEntropy, EqualsTheFormulaInChunksOfAnySize) {
  CpuDevice device(2);
  const CrossEntropyCase c = make_case(50, 9, 33);
  const Expected e = reference(c, 1e-2);
  for (const std::int64_t chunk : {1, 7, 40, 1024}) {
    const LinearCrossEntropy op{.chunk_tokens = chunk, .z_loss_multiplier = 1e-2};
    expect_reference<double>(run_case<double>(*device, c, op), *device, c, e, 1e-12);
    expect_reference<float>(run_case<float>(*device, c, op), *device, c, e, 3e-6);
  }
}

TEST(LinearCrossEntropy, SoftCapInRowsOfAnyLength) {
  CpuDevice device(2);
  for (const std::int64_t vocabulary : {5, 33, 1024, 2500}) {
    for (const double cap : {0.7, 5.0, 100.0}) {
      const CrossEntropyCase c = make_case(20, 9, vocabulary);
      const Expected e = reference(c, 1e-2, cap);
      const LinearCrossEntropy op{.chunk_tokens = 7, .z_loss_multiplier = 1e-2, .softcap = cap};
      expect_reference<double>(run_case<double>(*device, c, op), *device, c, e, 1e-12);
      expect_reference<float>(run_case<float>(*device, c, op), *device, c, e, 3e-6);
      const LinearCrossEntropy forward{.z_loss_multiplier = 1e-2, .softcap = cap, .with_gradient = false};
      expect_reference<float>(run_case<float>(*device, c, forward), *device, c, e, 3e-6);
    }
  }
}

TEST(LinearCrossEntropy, WithoutGradientAndWithoutAccumulation) {
  CpuDevice device(1);
  CrossEntropyCase c = make_case(50, 9, 33);
  const Expected e = reference(c, 0);
  expect_reference<double>(run_case<double>(*device, c, {.with_gradient = false}), *device, c, e, 1e-12);
  const std::vector<Tensor> found = run_case<double>(*device, c, {.accumulate = false});
  c.destination.assign(c.destination.size(), 0);
  expect_reference<double>(found, *device, c, e, 1e-12);
}

TEST(LinearCrossEntropy, GradientIsThatOfTheWeightedSums) {
  CpuDevice device(1);
  for (const double softcap : {0.0, 1.5}) {
    const LinearCrossEntropy op{.z_loss_multiplier = 0.05, .softcap = softcap};
    CrossEntropyCase c = make_case(4, 3, 5);
    const Doubles dhidden = get<double>(*device, run_case<double>(*device, c, op)[2]);
    const auto loss = [&] {
      const Doubles sums = get<double>(*device, run_case<double>(*device, c, op)[0]);
      return (sums[0] + sums[1]) * static_cast<double>(c.inverse_denominator);
    };
    for (std::size_t i = 0; i < c.hidden.size(); ++i) {
      const double saved = c.hidden[i];
      c.hidden[i] = saved + 1e-5;
      const double above = loss();
      c.hidden[i] = saved - 1e-5;
      EXPECT_NEAR((above - loss()) / 2e-5, dhidden[i], 1e-9) << i;
      c.hidden[i] = saved;
    }
  }
}

TEST(LinearCrossEntropy, WhatHasNoWeightDoesNotLeak) {
  CpuDevice device(2);
  CrossEntropyCase clean = make_case(50, 9, 33);
  CrossEntropyCase dirty = clean;
  for (std::size_t t = 0; t < 50; ++t) {
    if (clean.weights[t] != 0) continue;
    dirty.targets[t] = -1;
    for (std::size_t i = 0; i < 9; ++i) dirty.hidden[t * 9 + i] = std::numeric_limits<double>::quiet_NaN();
  }
  const std::vector<Tensor> expected = run_case<float>(*device, clean, {.chunk_tokens = 16});
  const std::vector<Tensor> found = run_case<float>(*device, dirty, {.chunk_tokens = 16});
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_TRUE(bitwise_equal(get<float>(*device, found[i]), get<float>(*device, expected[i])));
  }
  EXPECT_EQ(get<double>(*device, found[0]), get<double>(*device, expected[0]));
  const std::vector<float> dhidden = get<float>(*device, found[2]);
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(dhidden[9 + i], 0);
}

TEST(LinearCrossEntropy, ANanIsSeenInTheLoss) {
  CpuDevice device(1);
  for (const std::uint32_t bits : {0x7fc00000U, 0x7fc00001U, 0x7fffffffU, 0xffc00000U, 0xffc00001U, 0xffffffffU}) {
    CrossEntropyCase c = make_case(5, 4, 33);
    std::vector<float> weight(c.weight.begin(), c.weight.end());
    const std::vector<float> hidden(c.hidden.begin(), c.hidden.end());
    weight[4 * 20] = std::bit_cast<float>(bits);  // no token's target
    const std::vector<Tensor> found = device->apply(
        LinearCrossEntropy{.with_gradient = false},
        std::vector<Tensor>{put(*device, {5, 4}, hidden), put(*device, {33, 4}, weight), put(*device, {5}, c.targets),
                            put(*device, {5}, c.weights), put(*device, {}, std::vector<float>{1.0F})});
    EXPECT_TRUE(std::isnan(get<double>(*device, found[0])[0])) << std::hex << bits;
  }
}

TEST(LinearCrossEntropy, NothingToLearnIsZero) {
  CpuDevice device(1);
  CrossEntropyCase c = make_case(5, 4, 6);
  c.weights.assign(5, 0);
  const std::vector<Tensor> found = run_case<float>(*device, c, {});
  EXPECT_EQ(get<double>(*device, found[0]), (Doubles{0, 0}));
  EXPECT_EQ(get<float>(*device, found[2]), std::vector<float>(20, 0));
}

TEST(LinearCrossEntropy, ATokensLossDependsOnItselfOnly) {
  CpuDevice device(2);
  const CrossEntropyCase all = make_case(100, 70, 300);
  const std::vector<float> expected = get<float>(*device, run_case<float>(*device, all, {.with_gradient = false})[1]);
  for (const std::int64_t chunk : {1, 3, 17, 64}) {
    const LinearCrossEntropy op{.chunk_tokens = chunk, .with_gradient = false};
    EXPECT_TRUE(bitwise_equal(get<float>(*device, run_case<float>(*device, all, op)[1]), expected));
  }
  CrossEntropyCase one = all;
  for (std::size_t t = 0; t < 100; ++t) one.weights[t] = t == 42 ? 1.0F : 0.0F;
  EXPECT_EQ(get<float>(*device, run_case<float>(*device, one, {})[1])[42], expected[42]);
}

TEST(LinearCrossEntropy, ATargetOutsideTheVocabularyIsNamed) {
  CpuDevice device(1);
  CrossEntropyCase c = make_case(5, 4, 6);
  c.targets[2] = 6;
  EXPECT_THROW(run_case<float>(*device, c, {}), Error);
}

TEST(LinearCrossEntropy, ExtraMemoryIsBoundedForLargeVocabularies) {
  CpuDevice device(2);
  CrossEntropyCase c = make_case(1500, 2, 128256);
  const std::int64_t before = device->pooled_bytes();
  const std::vector<Tensor> found = run_case<float>(*device, c, {.chunk_tokens = 1024});
  // The logits of the 1000 counting tokens would take 513 MB. A chunk of logits, the padded rows of a product whose
  // rows do not fill a tile (on AVX2), and inputs and outputs:
  EXPECT_LT(device->pooled_bytes() - before, (256 << 20) + 48 * 128256 * 4 + (4 << 20));
  EXPECT_TRUE(std::isfinite(get<double>(*device, found[0])[0]));
}

}  // namespace
}  // namespace maxtext::testing
