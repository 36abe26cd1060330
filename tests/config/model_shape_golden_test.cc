// Our model files against the dimensions and parameter counts of MaxText's own (fixtures/maxtext/llama_shapes.json).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "config/config_folder.h"
#include "config/model_shape.h"
#include "testing/fixtures.h"

namespace maxtext {
namespace {

nlohmann::json golden_shapes() {
  std::ifstream stream(testing::fixture_root() / "maxtext" / "llama_shapes.json");
  return nlohmann::json::parse(stream);
}

std::vector<std::string> our_models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(testing::project_root() / "configs" / "models")) {
    names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string expected_family(const std::string& decoder_block) {
  return decoder_block == "llama2" ? "llama" : decoder_block;
}

void expect_equal(const ModelShape& shape, const nlohmann::json& golden) {
  EXPECT_EQ(shape.hidden_size, golden["emb_dim"]);
  EXPECT_EQ(shape.query_heads, golden["q_heads"]);
  EXPECT_EQ(shape.kv_heads, golden["kv_heads"]);
  EXPECT_EQ(shape.head_dim, golden["head_dim"]);
  EXPECT_EQ(shape.intermediate_size, golden["mlp_dim"]);
  EXPECT_EQ(shape.layers, golden["layers"]);
  EXPECT_EQ(shape.vocab_size, golden["vocab"]);
  EXPECT_EQ(shape.rope.theta, golden["rope_theta"]);
  EXPECT_EQ(shape.rms_norm_eps, golden["norm_eps"]);
  EXPECT_EQ(shape.tie_word_embeddings, golden["tied"]);
  EXPECT_EQ(shape.qk_norm, golden["qk_norm"]);
  EXPECT_EQ(shape.attention_bias, golden["attention_bias"]);
  EXPECT_EQ(shape.layer_windows, std::vector<std::int64_t>(shape.layers, golden["sliding_window"]));
  EXPECT_EQ(shape.family, expected_family(golden["decoder_block"]));
  EXPECT_EQ(parameter_count(shape), golden["parameters"]);
}

TEST(ModelFilesGolden, EqualMaxTextsModels) {
  const nlohmann::json golden = golden_shapes();
  int compared = 0;
  for (const std::string& name : our_models()) {
    if (!golden.contains(name)) continue;
    SCOPED_TRACE(name);
    expect_equal(model_shape(testing::load({"model_name=" + name})), golden[name]);
    ++compared;
  }
  EXPECT_GE(compared, 11);
}

/// MaxText switches Llama 3.1's scaling on by the model's name; the fixture shows the class it then uses as "default".
TEST(ModelFilesGolden, OnlyLlama31ScalesItsFrequencies) {
  for (const std::string& name : our_models()) {
    const RopeType type = model_shape(testing::load({"model_name=" + name})).rope.type;
    EXPECT_EQ(type, name.starts_with("llama3.1") ? RopeType::llama3 : RopeType::plain) << name;
  }
}

/// The formula itself, also for models that have no file here.
TEST(ParameterCountGolden, EqualsMaxTextsAbstractModels) {
  int compared = 0;
  const nlohmann::json shapes = golden_shapes();
  for (const auto& [name, golden] : shapes.items()) {
    if (!golden.contains("parameters")) continue;
    ModelShape shape;
    shape.vocab_size = golden["vocab"];
    shape.hidden_size = golden["emb_dim"];
    shape.intermediate_size = golden["mlp_dim"];
    shape.layers = golden["layers"];
    shape.query_heads = golden["q_heads"];
    shape.kv_heads = golden["kv_heads"];
    shape.head_dim = golden["head_dim"];
    shape.tie_word_embeddings = golden["tied"];
    shape.attention_bias = golden["attention_bias"];
    shape.qk_norm = golden["qk_norm"];
    EXPECT_EQ(parameter_count(shape), golden["parameters_maxtext_abstract"]) << name;
    ++compared;
  }
  EXPECT_GE(compared, 15);
}

}  // namespace
}  // namespace maxtext
