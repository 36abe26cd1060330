#include "config/model_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "config/config_folder.h"

namespace maxtext {
namespace {

using ::testing::ElementsAre;
using testing::load;

TEST(ModelShape, DimensionsComeFromTheirKeys) {
  const ModelShape shape = model_shape(load({"model_name=llama-tiny", "max_target_length=77"}));
  EXPECT_EQ(shape.family, "llama");
  EXPECT_EQ(shape.vocab_size, 512);
  EXPECT_EQ(shape.hidden_size, 64);
  EXPECT_EQ(shape.intermediate_size, 128);
  EXPECT_EQ(shape.layers, 2);
  EXPECT_EQ(shape.query_heads, 4);
  EXPECT_EQ(shape.kv_heads, 2);
  EXPECT_EQ(shape.head_dim, 16);
  EXPECT_EQ(shape.rms_norm_eps, 1e-6);
  EXPECT_EQ(shape.query_scale, 0.25);
  EXPECT_THAT(shape.layer_windows, ElementsAre(0, 0));
  EXPECT_EQ(shape.max_position_embeddings, 77);
  EXPECT_EQ(shape.rope, RopeShape{});
}

TEST(ModelShape, QueryScaleCanBeSet) {
  EXPECT_EQ(model_shape(load({"model_name=llama-tiny", "query_scale=1"})).query_scale, 1.0);
}

/// MaxText's get_individual_scales: 2 -> heads and mlp; 4 -> also embedding; 8 -> also layers; then again.
TEST(ModelShape, ParameterScaleDoublesInTurn) {
  const auto scaled = [](const char* scale) {
    const ModelShape shape =
        model_shape(load({"model_name=llama-tiny", std::string("global_parameter_scale=") + scale}));
    return std::vector<std::int64_t>{shape.query_heads, shape.kv_heads, shape.intermediate_size,
                                     shape.hidden_size, shape.layers,   shape.head_dim};
  };
  EXPECT_THAT(scaled("1"), ElementsAre(4, 2, 128, 64, 2, 16));
  EXPECT_THAT(scaled("2"), ElementsAre(8, 4, 256, 64, 2, 16));
  EXPECT_THAT(scaled("4"), ElementsAre(8, 4, 256, 128, 2, 16));
  EXPECT_THAT(scaled("8"), ElementsAre(8, 4, 256, 128, 4, 16));
  EXPECT_THAT(scaled("16"), ElementsAre(16, 8, 512, 128, 4, 16));
}

TEST(ModelShape, WindowsFollowThePattern) {
  EXPECT_THAT(model_shape(load({"model_name=mistral-tiny"})).layer_windows, ElementsAre(64, 64));
  EXPECT_THAT(model_shape(load({"attention_layer_pattern=local_sliding,local_sliding,global", "sliding_window_size=5",
                                "base_num_decoder_layers=5"}))
                  .layer_windows,
              ElementsAre(5, 5, 0, 5, 5));
}

TEST(ModelShape, Families) {
  EXPECT_EQ(model_shape(load({"model_name=mistral-tiny"})).family, "mistral");
  EXPECT_EQ(model_shape(load({"model_name=qwen3-tiny"})).family, "qwen3");
  EXPECT_EQ(model_shape(load({"model_name=qwen2.5-0.5b"})).family, "qwen2");
  EXPECT_EQ(model_shape(load({"decoder_block=qwen2"})).family, "llama") << "without biases the two are the same";
}

TEST(ModelShape, RotaryTypes) {
  const RopeShape linear = model_shape(load({"rope_linear_scaling_factor=4", "rope_theta=5000"})).rope;
  EXPECT_EQ(linear.type, RopeType::linear);
  EXPECT_EQ(linear.factor, 4);
  EXPECT_EQ(linear.theta, 5000);
  const RopeShape llama3 = model_shape(load({"model_name=llama3.1-8b"})).rope;
  EXPECT_EQ(llama3, (RopeShape{RopeType::llama3, 500000, 8, 1, 4, 8192}));
  const RopeShape unscaled = model_shape(load({"model_name=llama3.1-8b", "rope_use_scale=false"})).rope;
  EXPECT_EQ(unscaled.type, RopeType::plain);
  EXPECT_EQ(unscaled.theta, 500000);
}

TEST(ModelShape, Yarn) {
  const std::vector<std::string> keys = {"rope_type=yarn", "rope_factor=4", "original_max_position_embeddings=32768",
                                         "rope_theta=1000000"};
  RopeShape expected;
  expected.type = RopeType::yarn;
  expected.theta = 1e6;
  expected.factor = 4;
  expected.original_max_position_embeddings = 32768;
  EXPECT_EQ(model_shape(load(keys)).rope, expected);
  std::vector<std::string> more = keys;
  more.insert(more.end(), {"rope_attention_scaling=true", "beta_fast=16", "beta_slow=2", "rope_truncate=false"});
  expected.attention_factor = 0.1 * std::log(4.0) + 1;
  expected.beta_fast = 16;
  expected.beta_slow = 2;
  expected.truncate = false;
  EXPECT_EQ(model_shape(load(more)).rope, expected);
}

TEST(ModelShape, Gemma2) {
  const ModelShape shape = model_shape(load({"model_name=gemma2-2b"}));
  EXPECT_EQ(shape.family, "gemma2");
  EXPECT_EQ(shape.activation, MlpActivation::gelu_tanh);
  EXPECT_EQ(shape.norm_weight_offset, 1);
  EXPECT_TRUE(shape.post_norms);
  EXPECT_FALSE(shape.qk_norm);
  EXPECT_EQ(shape.embedding_scale, 48);  // sqrt(2304)
  EXPECT_EQ(shape.attention_softcap, 50);
  EXPECT_EQ(shape.final_softcap, 30);
  EXPECT_EQ(shape.query_scale, 1 / 16.0);
  EXPECT_EQ(shape.local_rope, std::nullopt);
  ASSERT_EQ(shape.layer_windows.size(), 26U);
  EXPECT_EQ(shape.layer_windows[0], 4096);
  EXPECT_EQ(shape.layer_windows[1], 0);
  EXPECT_EQ(shape.layer_windows[24], 4096);
}

TEST(ModelShape, Gemma3HasARotaryEmbeddingPerAttentionType) {
  const ModelShape shape = model_shape(load({"model_name=gemma3-4b"}));
  EXPECT_EQ(shape.family, "gemma3");
  EXPECT_TRUE(shape.qk_norm);
  EXPECT_EQ(shape.attention_softcap, 0);
  EXPECT_EQ(shape.rope.type, RopeType::linear);
  EXPECT_EQ(shape.rope.factor, 8);
  EXPECT_EQ(shape.rope.theta, 1e6);
  ASSERT_TRUE(shape.local_rope.has_value());
  EXPECT_EQ(*shape.local_rope, RopeShape{});
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const bool global = layer % 6 == 5;
    EXPECT_EQ(shape.layer_windows[static_cast<std::size_t>(layer)], global ? 0 : 1024);
    EXPECT_EQ(&layer_rope(shape, layer), global ? &shape.rope : &*shape.local_rope);
  }
}

TEST(ModelShape, ALocalRotaryEmbeddingThatNoLayerHasIsNone) {
  EXPECT_EQ(
      model_shape(load({"model_name=gemma3-1b", "local_rope_max_timescale=1000000", "override_model_config=true"}))
          .local_rope,
      std::nullopt);
  EXPECT_EQ(model_shape(load({"model_name=gemma3-1b", "attention_layer_pattern=global", "sliding_window_size=0",
                              "override_model_config=true"}))
                .local_rope,
            std::nullopt);
}

TEST(ParameterCount, OfGemmaCountsFourNorms) {
  // gemma3-tiny: V=512, E=64, M=128, Hq*D=64, Hkv*D=32, 6 layers, tied; q and k norms of 16.
  const std::int64_t layer = 64 * 64 + 64 * 32 + 64 * 32 + 64 * 64 + 3 * 64 * 128 + 4 * 64 + 2 * 16;
  EXPECT_EQ(parameter_count(model_shape(load({"model_name=gemma3-tiny"}))), 512 * 64 + 64 + 6 * layer);
}

TEST(ParameterCount, CountsEachTensorOnce) {
  // Written out for llama-tiny: V=512, E=64, M=128, Hq*D=64, Hkv*D=32, 2 layers, untied.
  const std::int64_t layer = 64 * 64 + 64 * 32 + 64 * 32 + 64 * 64 + 3 * 64 * 128 + 64 + 64;
  EXPECT_EQ(parameter_count(model_shape(load({"model_name=llama-tiny"}))), 2 * 512 * 64 + 64 + 2 * layer);
}

TEST(ParameterCount, QuickstartHasBetweenFiveAndTenMillion) {
  const std::int64_t count = parameter_count(model_shape(load({"model_name=llama-quickstart"})));
  EXPECT_GE(count, 5'000'000);
  EXPECT_LE(count, 10'000'000);
}

}  // namespace
}  // namespace maxtext
