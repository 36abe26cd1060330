// What may influence what: documents do not leak, the future does not either, padding may hold anything; and the
// gradients are those of the loss, by finite differences in double.
#include <gtest/gtest.h>

#include <cmath>

#include "testing/compare.h"
#include "testing_model/model_run.h"

namespace maxtext::testing {
namespace {

ModelRunResult run(const ModelShape& shape, const RowBatch& batch, int cp) {
  ModelRunOptions options;
  options.mesh = {1, 1, cp, 1};
  options.with_logits = true;
  return run_model(shape, batch, options);
}

std::vector<float> logits_of(const ModelRunResult& result, std::int64_t token, std::int64_t vocab) {
  const auto begin = result.logits.begin() + token * vocab;
  return {begin, begin + vocab};
}

TEST(LeakProbe, OneTokenChangesItsOwnDocumentOnlyBitForBit) {
  const ModelShape shape = small_shape(6, 2, {0, 4});
  for (const int cp : {1, 2, 3}) {
    RowBatch batch = random_batch(36, {{9, 14, 11}}, shape.vocab_size, 23);
    const ModelRunResult before = run(shape, batch, cp);
    const std::int64_t changed = 12;  // in the second document, tokens 9..22
    batch.inputs[static_cast<std::size_t>(changed)] = (batch.inputs[static_cast<std::size_t>(changed)] + 1) % 61;
    const ModelRunResult after = run(shape, batch, cp);
    for (std::int64_t token = 0; token < 36; ++token) {
      const bool equal = logits_of(before, token, 61) == logits_of(after, token, 61);
      const bool may_differ = token >= changed && token < 23;
      EXPECT_EQ(equal, !may_differ) << "token " << token << " cp " << cp;
    }
  }
}

TEST(LeakProbe, WindowBoundsInfluence) {
  const std::int64_t window = 4;
  const ModelShape shape = small_shape(4, 2, {window});
  for (const int cp : {1, 4}) {
    RowBatch batch = random_batch(32, {{32}}, shape.vocab_size, 29);
    const ModelRunResult before = run(shape, batch, cp);
    batch.inputs[10] = (batch.inputs[10] + 1) % 61;
    const ModelRunResult after = run(shape, batch, cp);
    for (std::int64_t token = 0; token < 32; ++token) {
      const bool equal = logits_of(before, token, 61) == logits_of(after, token, 61);
      EXPECT_EQ(equal, !(token >= 10 && token < 10 + window)) << "token " << token << " cp " << cp;
    }
  }
}

TEST(PaddingProbe, WhatPaddingHoldsChangesNothingBitForBit) {
  const ModelShape shape = small_shape(6, 2, {0, 4});
  const RowBatch batch = random_batch(36, {{9, 14}}, shape.vocab_size, 31);
  RowBatch filled = batch;
  for (std::size_t i = 23; i < 36; ++i) {
    filled.inputs[i] = static_cast<std::int32_t>(i);
    filled.targets[i] = 5;
  }
  for (const int cp : {1, 2, 4}) {
    ModelRunOptions options;
    options.mesh = {1, 1, cp, 1};
    const ModelRunResult expected = run_model(shape, batch, options);
    const ModelRunResult actual = run_model(shape, filled, options);
    EXPECT_EQ(actual.loss, expected.loss);
    for (const auto& [name, values] : expected.gradients) EXPECT_EQ(actual.gradients.at(name), values) << name;
  }
}

void expect_finite_differences(const ModelShape& shape) {
  const RowBatch batch = random_batch(11, {{6, 4}}, shape.vocab_size, 37);
  ModelRunOptions options;
  options.dtype = DType::float64;
  options.mesh = {1, 1, 2, 1};
  options.z_loss_multiplier = 0.01;
  const ModelRunResult result = run_model(shape, batch, options);
  options.with_gradients = false;
  for (const auto& [name, gradient] : result.gradients) {
    double largest = 0;
    for (const double value : gradient) largest = std::max(largest, std::abs(value));
    ASSERT_GT(largest, 0) << name;
    // A few elements spread over the tensor.
    for (std::size_t element = gradient.size() / 7; element < gradient.size(); element += gradient.size() / 2 + 1) {
      constexpr double kStep = 1e-5;
      double loss[2];
      for (const int side : {0, 1}) {
        options.edit_weights = [&, side, parameter = name](const std::string& edited, std::int64_t first,
                                                           std::vector<double>& values) {
          const std::int64_t index = static_cast<std::int64_t>(element) - first;
          if (edited != parameter || index < 0 || index >= static_cast<std::int64_t>(values.size())) return;
          values[static_cast<std::size_t>(index)] += side == 0 ? -kStep : kStep;
        };
        loss[side] = run_model(shape, batch, options).loss;
      }
      const double difference = (loss[1] - loss[0]) / (2 * kStep);
      EXPECT_NEAR(gradient[element], difference, 1e-6 * largest + 1e-9) << name << " [" << element << "]";
    }
  }
}

TEST(FiniteDifferences, EveryParameterInDouble) {
  ModelShape shape = small_shape(4, 2, {0, 3});
  shape.family = "qwen3";
  shape.qk_norm = true;
  shape.attention_bias = true;
  expect_finite_differences(shape);
}

TEST(FiniteDifferences, OfGemma2WithSoftCapsAndNormsOnBothSides) { expect_finite_differences(small_gemma2({3, 0})); }

TEST(FiniteDifferences, OfGemma3WithTwoRotaryEmbeddings) { expect_finite_differences(small_gemma3({3, 0})); }

TEST(Rematerialisation, PoliciesGiveBitwiseEqualGradients) {
  const ModelShape shape = small_shape(6, 2, {0, 9, 0, 9, 0, 9, 0, 9});
  const RowBatch batch = random_batch(48, {{48}, {30, 1, 10}}, shape.vocab_size, 41);
  for (const int cp : {1, 2}) {
    ModelRunOptions options;
    options.mesh = {1, 1, cp, 1};
    options.remat = "none";
    const ModelRunResult none = run_model(shape, batch, options);
    options.remat = "minimal";
    const ModelRunResult minimal = run_model(shape, batch, options);
    options.remat = "full";
    const ModelRunResult full = run_model(shape, batch, options);
    EXPECT_EQ(none.gradients, minimal.gradients);
    EXPECT_EQ(none.gradients, full.gradients);
    EXPECT_EQ(none.loss, full.loss);
    EXPECT_LE(full.peak_bytes, minimal.peak_bytes);
    EXPECT_LE(minimal.peak_bytes, none.peak_bytes);
  }
}

}  // namespace
}  // namespace maxtext::testing
