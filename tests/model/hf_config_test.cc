#include "model/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A small config of `family` with the given keys replaced; null removes one.
json config(const std::string& family, const json& changes = json::object()) {
  json keys = {{"model_type", family},     {"vocab_size", 100},      {"hidden_size", 32},
               {"intermediate_size", 64},  {"num_hidden_layers", 4}, {"num_attention_heads", 4},
               {"num_key_value_heads", 2}, {"head_dim", 8}};
  keys.merge_patch(changes);
  return keys;
}

ModelShape shape_of(const json& keys) { return parse_hf_config(keys.dump(), "config.json"); }

std::string error_of(const std::string& text) {
  try {
    parse_hf_config(text, "config.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of(const json& keys) { return error_of(keys.dump()); }

TEST(HfConfig, DefaultsAreThoseOfTransformers) {
  const ModelShape shape = shape_of(config("llama", {{"num_key_value_heads", nullptr}, {"head_dim", nullptr}}));
  EXPECT_EQ(shape.kv_heads, 4);
  EXPECT_EQ(shape.head_dim, 8);
  EXPECT_EQ(shape.rms_norm_eps, 1e-6);
  EXPECT_EQ(shape.rope, RopeShape{});
  EXPECT_EQ(shape.max_position_embeddings, 2048);
  EXPECT_EQ(shape_of(config("qwen3", {{"head_dim", nullptr}})).head_dim, 128);
}

TEST(HfConfig, LinearRopeInAllThreeSpellings) {
  const json v5 = {{"rope_parameters", {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 5e5}}}};
  const json v4 = {{"rope_theta", 5e5}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}}}};
  const json old = {{"rope_theta", 5e5}, {"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}};
  RopeShape expected;
  expected.type = RopeType::linear;
  expected.theta = 5e5;
  expected.factor = 4.0;
  for (const json& keys : {v5, v4, old}) EXPECT_EQ(shape_of(config("llama", keys)).rope, expected) << keys;
}

TEST(HfConfig, QwenWindowsFollowLayerTypesElseMaxWindowLayers) {
  const json used = {{"use_sliding_window", true}, {"sliding_window", 16}, {"max_window_layers", 3}};
  EXPECT_THAT(shape_of(config("qwen2", used)).layer_windows, ElementsAre(0, 0, 0, 16));
  json types = used;
  types["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
  EXPECT_THAT(shape_of(config("qwen3", types)).layer_windows, ElementsAre(16, 0, 16, 0));
  json unused = used;
  unused["use_sliding_window"] = false;
  EXPECT_THAT(shape_of(config("qwen2", unused)).layer_windows, Each(0));
}

TEST(HfConfig, LlamaHasNoWindowsAsInTransformers) {
  EXPECT_THAT(shape_of(config("llama", {{"sliding_window", 16}})).layer_windows, Each(0));
}

TEST(HfConfig, MistralWithoutWindowSeesEverything) { EXPECT_THAT(shape_of(config("mistral")).layer_windows, Each(0)); }

TEST(HfConfig, WhatWouldBeComputedWronglyIsRefused) {
  EXPECT_THAT(error_of(config("gpt2")), AllOf(HasSubstr("model_type=gpt2"), HasSubstr("llama, mistral, qwen2, qwen3")));
  EXPECT_THAT(error_of(config("llama", {{"hidden_act", "gelu"}})), HasSubstr("hidden_act=\"gelu\": expected silu"));
  EXPECT_THAT(error_of(config("llama", {{"attention_bias", true}})), HasSubstr("attention_bias=true"));
  EXPECT_THAT(error_of(config("qwen3", {{"attention_bias", true}})), HasSubstr("attention_bias=true"));
  EXPECT_THAT(error_of(config("llama", {{"mlp_bias", true}})), HasSubstr("mlp_bias=true"));
  EXPECT_THAT(error_of(config("llama", {{"partial_rotary_factor", 0.5}})), HasSubstr("partial_rotary_factor=0.5"));
  EXPECT_THAT(error_of(config("llama", {{"quantization_config", {{"bits", 4}}}})), HasSubstr("quantization_config"));
  EXPECT_THAT(error_of(config("llama", {{"rope_scaling", {{"type", "yarn"}, {"factor", 4}}}})),
              AllOf(HasSubstr("rope_scaling"), HasSubstr("type=\"yarn\""), HasSubstr("default, linear or llama3")));
  EXPECT_THAT(error_of(config("llama", {{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}})),
              HasSubstr("per layer type"));
}

TEST(HfConfig, WrongValuesNameKeyValueAndExpectation) {
  EXPECT_THAT(error_of(config("llama", {{"vocab_size", nullptr}})), HasSubstr("vocab_size is missing"));
  EXPECT_THAT(error_of(config("llama", {{"hidden_size", 0}})), HasSubstr("hidden_size=0: expected a positive integer"));
  EXPECT_THAT(error_of(config("llama", {{"hidden_size", "64"}})), HasSubstr("hidden_size=\"64\""));
  EXPECT_THAT(error_of(config("llama", {{"hidden_size", 1e30}})), HasSubstr("hidden_size=1e+30"));
  EXPECT_THAT(error_of(config("llama", {{"rms_norm_eps", -1}})), HasSubstr("rms_norm_eps=-1: expected a positive"));
  EXPECT_THAT(error_of(config("llama", {{"tie_word_embeddings", "yes"}})), HasSubstr("expected true or false"));
  EXPECT_THAT(error_of(config("llama", {{"num_key_value_heads", 3}})),
              HasSubstr("a multiple of num_key_value_heads=3"));
  EXPECT_THAT(error_of(config("llama", {{"head_dim", 7}})), HasSubstr("head_dim=7: expected an even number"));
  EXPECT_THAT(error_of(config("llama", {{"head_dim", nullptr}, {"hidden_size", 30}})), HasSubstr("hidden_size=30"));
  EXPECT_THAT(error_of(config("mistral", {{"num_key_value_heads", nullptr}})),
              HasSubstr("num_key_value_heads is missing"));
  EXPECT_THAT(error_of(config("llama", {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}}}})),
              HasSubstr("low_freq_factor is missing"));
  EXPECT_THAT(error_of(config("qwen2", {{"layer_types", {"full_attention"}}})), HasSubstr("a list of 4 entries"));
  EXPECT_THAT(error_of(config("qwen2", {{"layer_types", json::array({"sliding_attention", "full_attention",
                                                                     "full_attention", "full_attention"})}})),
              HasSubstr("give no window"));
  EXPECT_THAT(error_of(config("qwen2", {{"use_sliding_window", true}, {"sliding_window", 16}})),
              HasSubstr("max_window_layers"));
}

TEST(HfConfig, WrongFilesNameTheFile) {
  EXPECT_THAT(error_of(std::string("{\"model_type\": ")), HasSubstr("config.json: not valid JSON"));
  EXPECT_THAT(error_of(std::string("[1]")), HasSubstr("expected a JSON object, got array"));
  EXPECT_THAT(error_of(json::object()), HasSubstr("model_type is missing"));
  const testing::TemporaryDirectory folder;
  try {
    read_hf_config(folder.path());
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr((folder.path() / "config.json").string()));
  }
}

TEST(HfConfigWriter, MixedWindowsRoundTripForQwen) {
  ModelShape shape = shape_of(config("qwen3"));
  shape.layer_windows = {8, 8, 0, 8};
  EXPECT_TRUE(parse_hf_config(write_hf_config(shape), "written") == shape);
}

TEST(HfConfigWriter, RopeTypesRoundTrip) {
  ModelShape shape = shape_of(config("llama"));
  shape.rope.type = RopeType::linear;
  shape.rope.factor = 3.5;
  EXPECT_TRUE(parse_hf_config(write_hf_config(shape), "written") == shape);
  shape.rope = {RopeType::llama3, 5e5, 8, 1, 4, 8192};
  EXPECT_TRUE(parse_hf_config(write_hf_config(shape), "written") == shape);
}

TEST(HfConfigWriter, LlamaWithOneWindowIsMistral) {
  ModelShape shape = shape_of(config("llama"));
  shape.layer_windows = {16, 16, 16, 16};
  const ModelShape read = parse_hf_config(write_hf_config(shape), "written");
  EXPECT_EQ(read.family, "mistral");
  shape.family = "mistral";
  EXPECT_TRUE(read == shape);
}

TEST(HfConfigWriter, ExtrasAndArchitectureAreWritten) {
  HfConfigExtras extras;
  extras.dtype = "bfloat16";
  extras.bos_token_id = 1;
  extras.eos_token_id = 2;
  const json written = json::parse(write_hf_config(shape_of(config("qwen2")), extras));
  EXPECT_EQ(written.at("architectures"), json::array({"Qwen2ForCausalLM"}));
  EXPECT_EQ(written.at("torch_dtype"), "bfloat16");
  EXPECT_EQ(written.at("bos_token_id"), 1);
  EXPECT_EQ(written.at("eos_token_id"), 2);
  EXPECT_FALSE(written.contains("query_scale"));
}

TEST(HfConfigWriter, WhatHuggingFaceCannotExpressIsRefused) {
  const ModelShape llama = shape_of(config("llama"));
  ModelShape shape = llama;
  shape.attention_bias = true;
  EXPECT_THROW(write_hf_config(shape), ConfigError);
  shape = llama;
  shape.qk_norm = true;
  EXPECT_THROW(write_hf_config(shape), ConfigError);
  shape = llama;
  shape.layer_windows = {0, 16, 0, 16};
  EXPECT_THROW(write_hf_config(shape), ConfigError);
  shape = shape_of(config("qwen2"));
  shape.layer_windows = {8, 16, 8, 16};
  EXPECT_THROW(write_hf_config(shape), ConfigError);
  shape = llama;
  shape.family = "gpt2";
  EXPECT_THROW(write_hf_config(shape), ConfigError);
  HfConfigExtras extras;
  extras.dtype = "int8";
  EXPECT_THROW(write_hf_config(llama, extras), ConfigError);
}

}  // namespace
}  // namespace maxtext
