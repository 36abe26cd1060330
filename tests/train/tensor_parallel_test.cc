// Heads, the MLP's width and the vocabulary over several devices: loss and every gradient equal those of one device,
// with KV heads divided and replicated, beside every other axis; norms count each logical element once.
#include <gtest/gtest.h>

#include "engines/cpu/cpu_engine.h"
#include "mesh/device_program.h"
#include "mesh/thread_transport.h"
#include "model/tensor_parallel.h"
#include "testing/compare.h"
#include "testing_model/model_run.h"
#include "testing_model/step_run.h"

namespace maxtext::testing {
namespace {

constexpr double kTolerance = 1e-5;

/// A vocabulary that four devices divide.
ModelShape divisible(ModelShape shape) {
  shape.vocab_size = 64;
  return shape;
}

std::string text(const std::array<int, 4>& mesh) {
  return "data " + std::to_string(mesh[0]) + " fsdp " + std::to_string(mesh[1]) + " context " +
         std::to_string(mesh[2]) + " tensor " + std::to_string(mesh[3]);
}

void expect_equal(const ModelRunResult& actual, const ModelRunResult& expected, const std::string& what) {
  EXPECT_NEAR(actual.loss, expected.loss, kTolerance * std::abs(expected.loss)) << what;
  ASSERT_EQ(actual.nll.size(), expected.nll.size()) << what;
  for (std::size_t i = 0; i < expected.nll.size(); ++i) {
    ASSERT_NEAR(actual.nll[i], expected.nll[i], kTolerance * 10) << "token " << i << " " << what;
  }
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size()) << what;
  for (const auto& [name, values] : expected.gradients) {
    EXPECT_LE(relative_difference(actual.gradients.at(name), values), kTolerance) << name << " " << what;
  }
}

struct Heads {
  const char* name;
  std::int64_t query_heads;
  std::int64_t kv_heads;
};
/// On four devices: a KV head each, two replicas of two, four replicas of one.
const std::vector<Heads> kHeads = {{"mha", 4, 4}, {"gqa", 8, 2}, {"mqa", 4, 1}};

class TensorMatrix : public ::testing::TestWithParam<int> {};

TEST_P(TensorMatrix, LossAndGradientsEqualOneDevice) {
  const int tensor = GetParam();
  for (const int context : {1, 2, 3}) {
    const std::int64_t length = 2 * context * 6 + 1;
    for (const Heads& heads : kHeads) {
      for (const std::int64_t window : {std::int64_t{0}, std::int64_t{5}}) {
        const ModelShape shape = divisible(small_shape(heads.query_heads, heads.kv_heads, {0, window}));
        const RowBatch batch = random_batch(length, {{length}, {1, 0, 5, 3}}, shape.vocab_size, 3);
        const ModelRunResult expected = run_model(shape, batch, {});
        for (const ReorderStrategy strategy : {ReorderStrategy::none, ReorderStrategy::automatic}) {
          ModelRunOptions options;
          options.mesh = {1, 1, context, tensor};
          options.reorder = strategy;
          expect_equal(run_model(shape, batch, options), expected,
                       std::string(heads.name) + " window " + std::to_string(window) + " " + text(options.mesh));
          if (HasFailure()) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tensor, TensorMatrix, ::testing::Values(2, 4),
                         [](const auto& instance) { return "tensor" + std::to_string(instance.param); });

std::vector<ModelShape> families() {
  ModelShape qwen2 = small_shape(8, 2, {0, 0});
  qwen2.family = "qwen2";
  qwen2.attention_bias = true;
  ModelShape qwen3 = small_shape(8, 2, {0, 7});
  qwen3.family = "qwen3";
  qwen3.qk_norm = true;
  std::vector<ModelShape> all;
  for (const ModelShape& shape : {qwen2, qwen3, small_gemma2({5, 0, 5}), small_gemma3({4, 0})}) {
    all.push_back(divisible(shape));
  }
  return all;
}

TEST(TensorParallel, OfEveryFamilyBesideOtherAxes) {
  for (const ModelShape& shape : families()) {
    const RowBatch batch = random_batch(29, {{29}, {10, 1, 12}, {1, 28}, {7, 7, 7}}, shape.vocab_size, 11);
    const ModelRunResult expected = run_model(shape, batch, {});
    for (const std::array<int, 4> mesh :
         {std::array<int, 4>{1, 1, 1, 4}, {1, 2, 1, 2}, {2, 1, 2, 2}, {1, 2, 2, 2}, {1, 1, 2, 4}}) {
      for (const std::string remat : {"none", "minimal", "full"}) {
        ModelRunOptions options;
        options.mesh = mesh;
        options.remat = remat;
        options.cross_entropy_chunk = 16;
        expect_equal(run_model(shape, batch, options), expected, shape.family + " " + text(mesh) + " remat " + remat);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(TensorParallel, MicroBatchesAndZLoss) {
  const ModelShape shape = divisible(small_shape(8, 2, {0, 5}));
  const RowBatch batch = random_batch(29, {{29}, {3, 1}, {1, 20}, {2}}, shape.vocab_size, 23);
  ModelRunOptions options;
  options.z_loss_multiplier = 0.01;
  options.micro_batches = 2;
  const ModelRunResult expected = run_model(shape, batch, options);
  for (const std::array<int, 4> mesh : {std::array<int, 4>{1, 1, 1, 2}, {1, 2, 1, 4}, {1, 1, 2, 4}}) {
    options.mesh = mesh;
    expect_equal(run_model(shape, batch, options), expected, text(mesh));
  }
}

TEST(TensorParallel, LogitsAreThoseOfOneDevice) {
  for (const ModelShape& shape : families()) {
    const RowBatch batch = random_batch(13, {{13}, {4, 9}}, shape.vocab_size, 5);
    ModelRunOptions options;
    options.with_logits = true;
    options.with_gradients = false;
    const std::vector<float> expected = run_model(shape, batch, options).logits;
    options.mesh = {1, 1, 2, 4};
    EXPECT_LE(max_abs_difference(run_model(shape, batch, options).logits, expected), 1e-5) << shape.family;
  }
}

TEST(TensorParallel, RepeatedRunsAreBitwiseEqual) {
  const ModelShape shape = divisible(small_shape(8, 2, {0, 9}));
  const RowBatch batch = random_batch(40, {{40}, {30, 1}}, shape.vocab_size, 17);
  ModelRunOptions options;
  options.mesh = {1, 1, 2, 4};
  const ModelRunResult first = run_model(shape, batch, options);
  options.threads = 2;
  const ModelRunResult second = run_model(shape, batch, options);
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(first.gradients, second.gradients);
}

StepOutput step_on(StepCase step, std::array<int, 4> mesh) {
  step.mesh = mesh;
  ThreadTransport transport{model_mesh(step.shape, mesh)};
  std::vector<StepOutput> outputs(static_cast<std::size_t>(transport.mesh().device_count()));
  run_devices(
      transport.local_devices(),
      [&](int device) {
        const std::unique_ptr<Communicator> communicator = transport.communicator(device);
        CpuEngine engine({.threads = 1}, *communicator);
        outputs[static_cast<std::size_t>(device)] = real_step(step, plan_of(step), engine);
      },
      [&](int device, const std::string& reason) { transport.abort(device, reason); });
  for (const StepOutput& output : outputs) {
    EXPECT_EQ(output.loss, outputs[0].loss);
    EXPECT_EQ(output.gradient_norm, outputs[0].gradient_norm);
  }
  return outputs[0];
}

/// Norms, and KV heads that several devices hold, once.
TEST(TensorParallel, EachElementCountsOnceInNorms) {
  for (const ModelShape& shape : families()) {
    const StepCase step{
        .name = shape.family, .shape = shape, .batch = random_batch(20, {{20}, {5, 15}}, shape.vocab_size, 29)};
    const StepOutput expected = step_on(step, {1, 1, 1, 1});
    for (const std::array<int, 4> mesh : {std::array<int, 4>{1, 1, 1, 2}, {1, 1, 1, 4}, {1, 1, 2, 4}, {1, 2, 1, 2}}) {
      const StepOutput actual = step_on(step, mesh);
      EXPECT_NEAR(actual.gradient_norm, expected.gradient_norm, 1e-5 * expected.gradient_norm)
          << shape.family << " " << text(mesh);
      ASSERT_EQ(actual.gradient_sums_of_squares.size(), expected.gradient_sums_of_squares.size());
      for (std::size_t i = 0; i < expected.gradient_sums_of_squares.size(); ++i) {
        EXPECT_NEAR(actual.gradient_sums_of_squares[i], expected.gradient_sums_of_squares[i],
                    2e-5 * expected.gradient_sums_of_squares[i])
            << shape.family << " " << text(mesh) << " parameter " << i;
      }
    }
  }
}

TEST(TensorParallel, WhatDoesNotDivideIsRefusedByName) {
  const ModelShape shape = divisible(small_shape(6, 2, {0}));
  const auto refusal = [](const ModelShape& model, int tensor) -> std::string {
    try {
      model_mesh(model, {1, 1, 1, tensor});
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(shape, 2), "");
  EXPECT_NE(refusal(shape, 3).find("more than the 2 KV heads"), std::string::npos);
  EXPECT_NE(refusal(shape, 4).find("base_num_query_heads=6"), std::string::npos);
  ModelShape odd = divisible(small_shape(8, 2, {0}));
  odd.vocab_size = 61;
  EXPECT_NE(refusal(odd, 2).find("vocab_size=61"), std::string::npos);
  odd.vocab_size = 64;
  odd.intermediate_size = 41;
  EXPECT_NE(refusal(odd, 2).find("base_mlp_dim=41"), std::string::npos);
}

}  // namespace
}  // namespace maxtext::testing
