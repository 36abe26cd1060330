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

/// MaxText's windows: on every other layer of gemma2, on five of six layers of gemma3.
std::vector<std::int64_t> expected_windows(const std::string& block, std::int64_t layers, std::int64_t window) {
  const std::int64_t period = block == "gemma2" ? 2 : block == "gemma3" ? 6 : layers + 1;
  std::vector<std::int64_t> windows;
  for (std::int64_t layer = 1; layer <= layers; ++layer) windows.push_back(layer % period == 0 ? 0 : window);
  return windows;
}

/// Rows of Gemma's embedding: ours are those of the published weights, MaxText's are not.
std::int64_t expected_vocab(const std::string& name, std::int64_t maxtexts) {
  if (name.starts_with("gemma2")) return 256000;
  return name == "gemma3-4b" ? 262208 : maxtexts;
}

double cap(const nlohmann::json& golden) { return golden.is_null() ? 0.0 : golden.get<double>(); }

void expect_equal(const std::string& name, const ModelShape& shape, const nlohmann::json& golden) {
  const std::string block = golden["decoder_block"];
  // One scanned layer of MaxText's gemma2 is a pair.
  const std::int64_t layers = golden["layers"].get<std::int64_t>() * (block == "gemma2" ? 2 : 1);
  const std::int64_t vocab = expected_vocab(name, golden["vocab"]);
  EXPECT_EQ(shape.hidden_size, golden["emb_dim"]);
  EXPECT_EQ(shape.query_heads, golden["q_heads"]);
  EXPECT_EQ(shape.kv_heads, golden["kv_heads"]);
  EXPECT_EQ(shape.head_dim, golden["head_dim"]);
  EXPECT_EQ(shape.intermediate_size, golden["mlp_dim"]);
  EXPECT_EQ(shape.layers, layers);
  EXPECT_EQ(shape.vocab_size, vocab);
  EXPECT_EQ(shape.rope.theta, golden["rope_theta"]);
  EXPECT_EQ(shape.rms_norm_eps, golden["norm_eps"]);
  EXPECT_EQ(shape.tie_word_embeddings, golden["tied"]);
  // MaxText's gemma3 has the norms on q and k without the key.
  EXPECT_EQ(shape.qk_norm, golden["qk_norm"].get<bool>() || block == "gemma3");
  EXPECT_EQ(shape.attention_bias, golden["attention_bias"]);
  EXPECT_EQ(shape.layer_windows, expected_windows(block, layers, golden["sliding_window"]));
  EXPECT_EQ(shape.attention_softcap, cap(golden["attn_logit_softcap"]));
  EXPECT_EQ(shape.final_softcap, cap(golden["final_logit_softcap"]));
  EXPECT_EQ(shape.activation == MlpActivation::gelu_tanh, golden["mlp_activations"][0] == "gelu");
  EXPECT_EQ(shape.family, expected_family(block));
  const std::int64_t other_rows = (vocab - golden["vocab"].get<std::int64_t>()) * shape.hidden_size;
  EXPECT_EQ(parameter_count(shape), golden["parameters_maxtext_abstract"].get<std::int64_t>() + other_rows);
}

TEST(ModelFilesGolden, EqualMaxTextsModels) {
  const nlohmann::json golden = golden_shapes();
  int compared = 0;
  for (const std::string& name : our_models()) {
    if (!golden.contains(name)) continue;
    SCOPED_TRACE(name);
    expect_equal(name, model_shape(testing::load({"model_name=" + name})), golden[name]);
    ++compared;
  }
  EXPECT_GE(compared, 14);
}

/// MaxText switches Llama 3.1's scaling on by the model's name; the fixture shows the class it then uses as "default".
/// Gemma 3 from 4B up divides the frequencies of its global layers.
TEST(ModelFilesGolden, WhoScalesItsFrequencies) {
  for (const std::string& name : our_models()) {
    const RopeType type = model_shape(testing::load({"model_name=" + name})).rope.type;
    const bool llama3 = name.starts_with("llama3.1") || name.starts_with("llama3.2");
    const RopeType expected = llama3 ? RopeType::llama3 : name == "gemma3-4b" ? RopeType::linear : RopeType::plain;
    EXPECT_EQ(type, expected) << name;
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
