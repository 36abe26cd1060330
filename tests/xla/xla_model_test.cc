// The model, the tape and `repeat` as they are, traced to StableHLO text, compiled by a PJRT plugin and run as
// replicas, give the loss and every gradient of the cpu engine.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "engines/xla/xla_engine.h"
#include "engines/xla/xla_runtime.h"
#include "model/tensor_parallel.h"
#include "testing/compare.h"
#include "testing_model/model_run.h"
#include "xla/plugin.h"

namespace maxtext::testing {
namespace {

constexpr double kTolerance = 1e-5;

/// Norms that are not one and biases that are not zero, the same on every mesh.
void make_weights_general(const std::string& name, std::int64_t first, std::vector<double>& values) {
  if (name.find("norm") == std::string::npos && name.find("bias") == std::string::npos) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] += 0.3 * std::sin(static_cast<double>(first + static_cast<std::int64_t>(i) + std::ssize(name)));
  }
}

struct NamedCase {
  std::string name;
  ModelShape shape;
  RowBatch batch;
  ModelRunOptions options;
};

void PrintTo(const NamedCase& named, std::ostream* out) { *out << named.name; }

NamedCase make_case(std::string name, std::array<int, 4> mesh, std::vector<std::vector<std::int64_t>> documents,
                    std::vector<std::int64_t> layer_windows = {0, 0}) {
  NamedCase result{
      .name = std::move(name), .shape = small_shape(6, 2, std::move(layer_windows)), .batch = {}, .options = {}};
  result.options.mesh = mesh;
  result.options.edit_weights = make_weights_general;
  result.shape.vocab_size = 64;
  result.batch = random_batch(33, documents, result.shape.vocab_size, 3);
  return result;
}

std::vector<NamedCase> cases() {
  std::vector<NamedCase> all;
  all.push_back(make_case("one_device", {1, 1, 1, 1}, {{33}, {20, 13}}));
  all.push_back(make_case("one_layer", {1, 1, 1, 1}, {{33}, {20, 13}}, {0}));
  all.push_back(make_case("gqa_context_2", {1, 1, 2, 1}, {{33}, {33}}));
  all.push_back(make_case("three_layers_of_period_two", {1, 1, 2, 1}, {{33}, {20, 13}}, {0, 5, 0}));
  all.push_back(make_case("five_layers_of_period_two", {1, 1, 1, 1}, {{33}, {20, 13}}, {0, 5, 0, 5, 0}));

  NamedCase packed = make_case("packed_window_recomputed", {1, 1, 2, 1}, {{1, 0, 16, 1, 8}, {11, 11, 1}}, {0, 5});
  packed.options.remat = "full";
  packed.options.z_loss_multiplier = 1e-3;
  packed.options.reorder = ReorderStrategy::striped;
  all.push_back(packed);
  NamedCase minimal = make_case("four_layers_minimal_remat", {1, 1, 2, 1}, {{33}, {30}}, {0, 0, 0, 0});
  minimal.options.remat = "minimal";
  all.push_back(minimal);

  NamedCase family = make_case("tied_biases_and_head_norms", {1, 1, 2, 1}, {{33}, {30}});
  family.shape.tie_word_embeddings = true;
  family.shape.attention_bias = true;
  family.shape.qk_norm = true;
  all.push_back(family);

  NamedCase gemma2 = make_case("gemma2_soft_caps", {1, 1, 2, 1}, {{33}, {30}});
  gemma2.shape = small_gemma2({5, 0});
  gemma2.shape.vocab_size = 64;
  all.push_back(gemma2);
  NamedCase gemma3 = make_case("gemma3_two_rotary_embeddings", {1, 1, 2, 1}, {{33}, {30}});
  gemma3.shape = small_gemma3({5, 5, 0, 5});
  gemma3.shape.vocab_size = 64;
  all.push_back(gemma3);

  all.push_back(make_case("fsdp_2_context_2", {1, 2, 2, 1}, {{33}, {16, 17}}));
  all.push_back(make_case("data_2_context_2", {2, 1, 2, 1}, {{33}, {16, 17}}));
  all.push_back(make_case("tensor_2", {1, 1, 1, 2}, {{33}, {16, 17}}));
  all.push_back(make_case("context_2_tensor_2", {1, 1, 2, 2}, {{33}, {16, 17}}));
  NamedCase micro = make_case("fsdp_2_two_micro_batches", {1, 2, 1, 1}, {{33}, {16, 17}, {33}, {1, 30}});
  micro.options.micro_batches = 2;
  all.push_back(micro);

  NamedCase wide = make_case("float64", {1, 1, 2, 1}, {{33}, {20, 13}});
  wide.options.dtype = DType::float64;
  all.push_back(wide);
  return all;
}

class XlaModel : public ::testing::TestWithParam<NamedCase> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_plugin(); !reason.empty()) GTEST_SKIP() << reason;
  }

  static ModelRunResult run_on_plugin(const NamedCase& named, std::shared_ptr<XlaRuntime>& runtime) {
    const Mesh mesh = model_mesh(named.shape, named.options.mesh);
    runtime = std::make_shared<XlaRuntime>(PjrtClient::open(plugin_path(), mesh.device_count()), mesh.device_count());
    ModelRunOptions options = named.options;
    options.make_engine = [&](Communicator& communicator) {
      return std::make_unique<XlaEngine>(communicator.mesh(), communicator.device(), runtime);
    };
    return run_model(named.shape, named.batch, options);
  }
};

TEST_P(XlaModel, LossAndEveryGradientEqualTheCpuEngines) {
  std::shared_ptr<XlaRuntime> runtime;
  const ModelRunResult actual = run_on_plugin(GetParam(), runtime);
  const ModelRunResult expected = run_model(GetParam().shape, GetParam().batch, GetParam().options);
  EXPECT_NEAR(actual.loss, expected.loss, kTolerance * std::abs(expected.loss));
  EXPECT_TRUE(all_close(actual.nll, expected.nll, kTolerance, "nll"));
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
  for (const auto& [name, values] : expected.gradients) {
    ASSERT_TRUE(actual.gradients.contains(name)) << name;
    EXPECT_TRUE(all_close(actual.gradients.at(name), values, kTolerance, name));
  }
}

INSTANTIATE_TEST_SUITE_P(Model, XlaModel, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace maxtext::testing
