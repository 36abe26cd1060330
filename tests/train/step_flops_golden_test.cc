#include "train/step_flops.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/fixtures.h"

namespace maxtext {
namespace {

nlohmann::json read(const std::string& pattern) {
  std::ifstream file(testing::find_fixtures(pattern).front());
  return nlohmann::json::parse(file);
}

/// MaxText's windows: every other layer of gemma2 (whose `layers` counts pairs), five of six layers of gemma3;
/// mistral's window is not in its formula.
std::vector<std::int64_t> windows_of(const std::string& model, std::int64_t layers, std::int64_t window) {
  std::vector<std::int64_t> windows(layers, 0);
  const std::int64_t period = model.starts_with("gemma2") ? 2 : model.starts_with("gemma3") ? 6 : 1;
  for (std::int64_t i = 0; i < layers; ++i) {
    if (i % period != period - 1) windows[i] = window;
  }
  return windows;
}

ModelShape shape_of(const std::string& model, const nlohmann::json& facts) {
  ModelShape shape;
  shape.vocab_size = facts.at("vocab");
  shape.hidden_size = facts.at("emb_dim");
  shape.intermediate_size = facts.at("mlp_dim");
  shape.layers = facts.at("layers").get<std::int64_t>() * (model.starts_with("gemma2") ? 2 : 1);
  shape.query_heads = facts.at("q_heads");
  shape.kv_heads = facts.at("kv_heads");
  shape.head_dim = facts.at("head_dim");
  const auto& window = facts.at("sliding_window");
  shape.layer_windows = windows_of(model, shape.layers, window.is_number() ? window.get<std::int64_t>() : 0);
  return shape;
}

TEST(StepFlopsGolden, EveryModelIsMaxTexts) {
  const nlohmann::json shapes = read("maxtext/llama_shapes.json");
  const nlohmann::json cases = read("maxtext/step_tflops.json");
  ASSERT_EQ(cases.size(), 15u);
  for (const auto& item : cases) {
    const std::string model = item.at("model");
    const StepFlops flops =
        step_flops(shape_of(model, shapes.at(model)), item.at("per_device_batch_size"), item.at("seq"));
    const auto expect_close = [&](double actual, const char* key) {
      const double expected = item.at(key).get<double>() * 1e12;
      EXPECT_NEAR(actual, expected, 1e-9 * expected) << model << " at " << item.at("seq") << ": " << key;
    };
    expect_close(flops.learnable_weights, "learnable_weight_tflops");
    expect_close(flops.attention, "attention_tflops");
    expect_close(flops.total(), "total_tflops_per_device");
  }
}

}  // namespace
}  // namespace maxtext
