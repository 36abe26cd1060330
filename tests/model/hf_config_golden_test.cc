#include "model/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "testing/fixtures.h"

namespace maxtext {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::filesystem::path model(const std::string& name) { return testing::fixture_root() / "hf/models" / name; }

class HfConfigForms : public ::testing::TestWithParam<std::string> {};

TEST_P(HfConfigForms, BothFormsGiveTheSameShape) {
  const ModelShape current = read_hf_config(model(GetParam()) / "config.json");
  const ModelShape earlier = read_hf_config(model(GetParam()) / "config_v4.json");
  EXPECT_TRUE(current == earlier);
  EXPECT_GT(current.vocab_size, 0);
  EXPECT_EQ(current.layer_windows.size(), static_cast<std::size_t>(current.layers));
}

TEST_P(HfConfigForms, WhatIsWrittenReadsBackTheSame) {
  const ModelShape shape = read_hf_config(model(GetParam()));
  EXPECT_TRUE(parse_hf_config(write_hf_config(shape), "written") == shape);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& path : testing::find_fixtures("hf/models/*/config_v4.json")) {
    names.push_back(path.parent_path().filename().string());
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(AllModels, HfConfigForms, ::testing::ValuesIn(model_names()), [](const auto& instance) {
  std::string name = instance.param;
  std::erase(name, '-');
  return name;
});

TEST(HfConfigGolden, Llama) {
  const ModelShape shape = read_hf_config(model("llama"));
  EXPECT_EQ(shape.family, "llama");
  EXPECT_EQ(shape.vocab_size, 320);
  EXPECT_EQ(shape.hidden_size, 64);
  EXPECT_EQ(shape.intermediate_size, 112);
  EXPECT_EQ(shape.layers, 3);
  EXPECT_EQ(shape.query_heads, 4);
  EXPECT_EQ(shape.kv_heads, 2);
  EXPECT_EQ(shape.head_dim, 16);
  EXPECT_EQ(shape.rms_norm_eps, 1e-5);
  EXPECT_EQ(shape.rope, RopeShape{});
  EXPECT_FALSE(shape.tie_word_embeddings);
  EXPECT_FALSE(shape.attention_bias);
  EXPECT_FALSE(shape.qk_norm);
  EXPECT_EQ(shape.query_scale, 0.25);
  EXPECT_EQ(shape.max_position_embeddings, 512);
  EXPECT_THAT(shape.layer_windows, ElementsAre(0, 0, 0));
}

TEST(HfConfigGolden, WhatTheOthersExercise) {
  const ModelShape tied = read_hf_config(model("llama-tied"));
  EXPECT_TRUE(tied.tie_word_embeddings);
  EXPECT_EQ(tied.kv_heads, 1);
  EXPECT_EQ(tied.rope.theta, 1e5);

  const ModelShape llama31 = read_hf_config(model("llama31"));
  EXPECT_EQ(llama31.rope, (RopeShape{RopeType::llama3, 1e4, 8.0, 1.0, 4.0, 32}));

  EXPECT_THAT(read_hf_config(model("mistral")).layer_windows, ElementsAre(24, 24, 24));

  const ModelShape qwen2 = read_hf_config(model("qwen2"));
  EXPECT_TRUE(qwen2.attention_bias);
  EXPECT_FALSE(qwen2.qk_norm);
  EXPECT_EQ(qwen2.head_dim, 8);  // not in the file: 56 / 7
  EXPECT_THAT(qwen2.layer_windows, Each(0));

  const ModelShape qwen3 = read_hf_config(model("qwen3"));
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_FALSE(qwen3.attention_bias);
  EXPECT_EQ(qwen3.head_dim, 32);
  EXPECT_EQ(qwen3.query_scale, 1.0 / std::sqrt(32.0));
}

TEST(HfConfigGolden, MaxTextsFoldedScaleIsExplicit) {
  const auto folder = testing::fixture_root() / "maxtext";
  EXPECT_EQ(read_hf_config(folder / "train_folded_scale").query_scale, 1.0);
  EXPECT_EQ(read_hf_config(folder / "train_packed").query_scale, 0.25);
  const ModelShape folded = read_hf_config(folder / "train_folded_scale");
  EXPECT_TRUE(parse_hf_config(write_hf_config(folded), "written") == folded);
}

TEST(HfConfigGolden, Gemma2) {
  const ModelShape shape = read_hf_config(model("gemma2"));
  EXPECT_EQ(shape.family, "gemma2");
  EXPECT_EQ(shape.attention_softcap, 4);
  EXPECT_EQ(shape.final_softcap, 6);
  EXPECT_EQ(shape.query_scale, 1 / std::sqrt(20.0));
  EXPECT_THAT(shape.layer_windows, ElementsAre(16, 0, 16, 0));
  EXPECT_EQ(shape.rope, RopeShape{});
  EXPECT_EQ(shape.local_rope, std::nullopt);
  EXPECT_TRUE(shape.tie_word_embeddings);
  EXPECT_TRUE(shape.post_norms);
  EXPECT_EQ(shape.norm_weight_offset, 1);
  EXPECT_EQ(shape.activation, MlpActivation::gelu_tanh);
  EXPECT_EQ(shape.embedding_scale, std::sqrt(48.0));
}

TEST(HfConfigGolden, Gemma3) {
  const ModelShape shape = read_hf_config(model("gemma3"));
  EXPECT_EQ(shape.family, "gemma3");
  EXPECT_EQ(shape.attention_softcap, 0);
  EXPECT_EQ(shape.final_softcap, 0);
  EXPECT_TRUE(shape.qk_norm);
  EXPECT_EQ(shape.query_scale, 1 / std::sqrt(24.0));
  EXPECT_THAT(shape.layer_windows, ElementsAre(16, 16, 0, 16, 16, 0));
  EXPECT_EQ(shape.rope, (RopeShape{RopeType::linear, 1e6, 8.0}));
  ASSERT_TRUE(shape.local_rope.has_value());
  EXPECT_EQ(*shape.local_rope, RopeShape{});
}

}  // namespace
}  // namespace maxtext
