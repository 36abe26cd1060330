#include "model/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/hf_text_model.h"
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
  for (const char* type : {"dynamic", "longrope", "su", "mrope"}) {
    EXPECT_EQ(
        error_of(config("llama", {{"rope_scaling", {{"type", type}, {"factor", 4}}}})),
        std::string("config.json: rope_scaling: type=\"") + type + "\": expected default, linear, llama3 or yarn");
  }
  EXPECT_THAT(error_of(config("llama", {{"rope_parameters", {{"full_attention", {{"rope_type", "default"}}}}}})),
              HasSubstr("per layer type"));
}

/// A Gemma 2 of the sizes of `config`.
json gemma2(const json& changes = json::object()) { return config("gemma2", changes); }

TEST(HfConfig, Gemma2sDefaultsAreThoseOfTransformers) {
  const ModelShape shape = shape_of(gemma2({{"head_dim", nullptr}}));
  EXPECT_EQ(shape.head_dim, 256);
  EXPECT_EQ(shape.attention_softcap, 50);
  EXPECT_EQ(shape.final_softcap, 30);
  EXPECT_EQ(shape.query_scale, 1 / 16.0);
  EXPECT_THAT(shape.layer_windows, ElementsAre(4096, 0, 4096, 0));
  EXPECT_TRUE(shape.tie_word_embeddings);
  EXPECT_EQ(shape.max_position_embeddings, 8192);
}

TEST(HfConfig, ANullSoftCapIsNone) {
  const std::string text = R"({"model_type": "gemma2", "vocab_size": 100, "hidden_size": 32, "intermediate_size": 64,
      "num_hidden_layers": 2, "attn_logit_softcapping": null, "final_logit_softcapping": null})";
  const ModelShape shape = parse_hf_config(text, "config.json");
  EXPECT_EQ(shape.attention_softcap, 0);
  EXPECT_EQ(shape.final_softcap, 0);
  EXPECT_TRUE(parse_hf_config(write_hf_config(shape), "written") == shape);
}

/// The text_config that Gemma 3 4B is published with.
json gemma3_4b() {
  return {{"architectures", {"Gemma3ForConditionalGeneration"}},
          {"model_type", "gemma3"},
          {"eos_token_id", {1, 106}},
          {"torch_dtype", "bfloat16"},
          {"text_config",
           {{"hidden_size", 2560},
            {"intermediate_size", 10240},
            {"model_type", "gemma3_text"},
            {"num_hidden_layers", 34},
            {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
            {"sliding_window", 1024}}},
          {"vision_config", {{"hidden_size", 1152}}}};
}

TEST(HfConfig, OfAMultimodalGemma3TheTextModelIsRead) {
  const ModelShape shape = shape_of(gemma3_4b());
  EXPECT_EQ(shape.family, "gemma3");
  EXPECT_EQ(shape.vocab_size, 262208);
  EXPECT_EQ(shape.hidden_size, 2560);
  EXPECT_EQ(shape.query_heads, 8);
  EXPECT_EQ(shape.kv_heads, 4);
  EXPECT_EQ(shape.head_dim, 256);
  EXPECT_EQ(shape.rope, (RopeShape{RopeType::linear, 1e6, 8.0}));
  EXPECT_EQ(shape.local_rope, RopeShape{});
  EXPECT_EQ(shape.layer_windows[4], 1024);
  EXPECT_EQ(shape.layer_windows[5], 0);
  EXPECT_EQ(shape.layer_windows[33], 1024);
  const json text = text_model_config(gemma3_4b());
  EXPECT_EQ(text["model_type"], "gemma3_text");
  EXPECT_EQ(text["architectures"], json::array({"Gemma3ForCausalLM"}));
  EXPECT_EQ(text["torch_dtype"], "bfloat16");
  EXPECT_EQ(text["eos_token_id"], json::array({1, 106}));
  EXPECT_FALSE(text.contains("vision_config"));
  EXPECT_TRUE(shape_of(text) == shape);
  EXPECT_TRUE(parse_hf_config(write_hf_config(shape), "written") == shape);
}

TEST(HfConfig, TensorsOfTheTextModel) {
  EXPECT_EQ(text_model_tensor("language_model.model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(text_model_tensor("model.language_model.layers.0.mlp.up_proj.weight"), "model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(text_model_tensor("language_model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(text_model_tensor("vision_tower.vision_model.embeddings.patch_embedding.weight"), std::nullopt);
  EXPECT_EQ(text_model_tensor("multi_modal_projector.mm_soft_emb_norm.weight"), std::nullopt);
}

TEST(HfConfig, Gemma3sRotaryEmbeddingsInBothForms) {
  const json v5 = {{"rope_parameters",
                    {{"full_attention", {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 2e6}}},
                     {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 5e3}}}}}};
  const json v4 = {
      {"rope_theta", 2e6}, {"rope_local_base_freq", 5e3}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}}}};
  for (const json& keys : {v5, v4}) {
    const ModelShape shape = shape_of(config("gemma3_text", keys));
    EXPECT_EQ(shape.rope, (RopeShape{RopeType::linear, 2e6, 4.0})) << keys;
    EXPECT_EQ(shape.local_rope, (RopeShape{RopeType::plain, 5e3})) << keys;
  }
  const ModelShape same = shape_of(config("gemma3_text", {{"rope_local_base_freq", 1e6}}));
  EXPECT_EQ(same.local_rope, std::nullopt) << "all layers have one embedding";
  EXPECT_TRUE(parse_hf_config(write_hf_config(same), "written") == same);
}

TEST(HfConfig, SlidingWindowPatternInBothSpellings) {
  for (const char* key : {"sliding_window_pattern", "_sliding_window_pattern"}) {
    const ModelShape shape = shape_of(config("gemma3_text", {{key, 2}, {"sliding_window", 7}}));
    EXPECT_THAT(shape.layer_windows, ElementsAre(7, 0, 7, 0)) << key;
  }
}

TEST(HfConfig, WhatGemmaHasNot) {
  EXPECT_THAT(error_of(gemma2({{"hidden_activation", "gelu"}})),
              HasSubstr("hidden_activation=\"gelu\": expected gelu_pytorch_tanh"));
  EXPECT_THAT(error_of(gemma2({{"use_bidirectional_attention", true}})), HasSubstr("attention is causal"));
  EXPECT_THAT(error_of(gemma2({{"attn_logit_softcapping", -2}})), HasSubstr("attn_logit_softcapping=-2"));
  EXPECT_EQ(error_of(json{{"model_type", "gemma3_text"}, {"num_key_value_heads", 3}}),
            "config.json: num_attention_heads, which is not given: expected a multiple of num_key_value_heads=3");
  for (const char* family : {"gemma2", "qwen3"}) {
    EXPECT_EQ(error_of(config(family, {{"num_hidden_layers", 1000000000000}})),
              "config.json: num_hidden_layers=1000000000000: expected at most 65536");
  }
  EXPECT_THAT(error_of(config("gemma")), HasSubstr("model_type=gemma: unknown model family"));
  EXPECT_THAT(error_of(config("gemma3_text", {{"sliding_window_pattern", 0}})), HasSubstr("sliding_window_pattern=0"));
}

/// transformers 5: the attention factor as given, else from the ratio of mscales, else 0.1·ln(factor) + 1.
TEST(HfConfig, YarnAndItsAttentionFactor) {
  const auto rope = [](const json& more) {
    json section = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
    section.merge_patch(more);
    return shape_of(config("qwen2", {{"rope_theta", 1e6}, {"rope_scaling", section}})).rope;
  };
  RopeShape expected;
  expected.type = RopeType::yarn;
  expected.theta = 1e6;
  expected.factor = 4;
  expected.original_max_position_embeddings = 32768;
  expected.attention_factor = 1.138629436111989;  // 0.1·ln 4 + 1
  EXPECT_EQ(rope(json::object()), expected);
  EXPECT_EQ(rope({{"attention_factor", 1.25}}).attention_factor, 1.25);
  // (0.1·ln 4·0.707 + 1) / (0.1·ln 4·0.5 + 1)
  EXPECT_DOUBLE_EQ(rope({{"mscale", 0.707}, {"mscale_all_dim", 0.5}}).attention_factor, 1.0268361529030026);
  EXPECT_EQ(rope({{"mscale", 0.707}}).attention_factor, expected.attention_factor);
  const RopeShape other = rope({{"beta_fast", 16}, {"beta_slow", 2}, {"truncate", false}});
  EXPECT_EQ(other.beta_fast, 16);
  EXPECT_EQ(other.beta_slow, 2);
  EXPECT_FALSE(other.truncate);
  EXPECT_THAT(error_of(config("qwen2", {{"rope_scaling", {{"type", "yarn"}}}})),
              HasSubstr("original_max_position_embeddings is missing"));
  EXPECT_THAT(
      error_of(config(
          "qwen2", {{"rope_scaling",
                     {{"type", "yarn"}, {"factor", 4}, {"beta_slow", 40}, {"original_max_position_embeddings", 64}}}})),
      HasSubstr("expected beta_fast above beta_slow"));
}

/// As in transformers, which knows no default for them.
TEST(HfConfig, EveryTypeOfRopeNeedsItsFields) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> types = {
      {"linear", {"factor"}},
      {"yarn", {"factor"}},
      {"llama3", {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}}};
  for (const auto& [type, fields] : types) {
    const json whole = {{"rope_type", type},     {"factor", 8},       {"low_freq_factor", 1},
                        {"high_freq_factor", 4}, {"rope_theta", 1e4}, {"original_max_position_embeddings", 64}};
    for (const char* section : {"rope_scaling", "rope_parameters"}) {
      const auto error_with = [&](const json& rope) {
        return error_of(config("llama", {{"max_position_embeddings", 128}, {section, rope}}));
      };
      EXPECT_EQ(error_with(whole), "no error") << type;
      for (const std::string& field : fields) {
        json part = whole;
        part.erase(field);
        EXPECT_EQ(error_with(part), "config.json: " + std::string(section) + ": " + field + " is missing") << type;
      }
    }
  }
}

TEST(HfConfig, YarnWithoutItsOriginalLengthTakesTheModels) {
  const json section = {{"type", "yarn"}, {"factor", 2}};
  const RopeShape rope = shape_of(config("llama", {{"max_position_embeddings", 4096}, {"rope_scaling", section}})).rope;
  EXPECT_EQ(rope.original_max_position_embeddings, 4096);
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
  shape.rope = {RopeType::yarn, 1e6, 4, 1, 4, 32768, 30, 2, false, 1.07};
  EXPECT_TRUE(parse_hf_config(write_hf_config(shape), "written") == shape);
}

TEST(HfConfigWriter, GemmasRoundTrip) {
  ModelShape shape = shape_of(gemma2({{"query_pre_attn_scalar", 20}}));
  const json written = json::parse(write_hf_config(shape));
  EXPECT_EQ(written.at("query_pre_attn_scalar"), 20);
  EXPECT_EQ(written.at("architectures"), json::array({"Gemma2ForCausalLM"}));
  EXPECT_EQ(written.at("hidden_activation"), "gelu_pytorch_tanh");
  EXPECT_FALSE(written.contains("hidden_act"));
  EXPECT_FALSE(written.contains("query_scale"));
  EXPECT_TRUE(shape_of(written) == shape);
  for (const double scale : {1.0, 0.3, 0.123456789, 1 / std::sqrt(168.0)}) {
    shape.query_scale = scale;
    EXPECT_TRUE(parse_hf_config(write_hf_config(shape), "written") == shape) << scale;
  }
  shape.layer_windows = {0, 0, 0, 0};
  EXPECT_TRUE(parse_hf_config(write_hf_config(shape), "written") == shape);

  shape = shape_of(config("gemma3_text", {{"sliding_window_pattern", 3}, {"sliding_window", 8}}));
  const json gemma3 = json::parse(write_hf_config(shape));
  EXPECT_EQ(gemma3.at("model_type"), "gemma3_text");
  EXPECT_EQ(gemma3.at("sliding_window_pattern"), 3);
  EXPECT_EQ(gemma3.at("rope_local_base_freq"), 10000);
  EXPECT_TRUE(shape_of(gemma3) == shape);
  shape.layer_windows = {8, 0, 0, 8};
  shape.local_rope->theta = 777;
  const std::string text = write_hf_config(shape);
  EXPECT_FALSE(json::parse(text).contains("sliding_window_pattern")) << "no period";
  EXPECT_TRUE(parse_hf_config(text, "written") == shape);
}

TEST(HfConfigWriter, WhatOnlyGemmaHasIsRefusedElsewhere) {
  const ModelShape llama = shape_of(config("llama"));
  const auto refused = [](const ModelShape& shape) { EXPECT_THROW(write_hf_config(shape), ConfigError); };
  ModelShape shape = llama;
  shape.attention_softcap = 50;
  refused(shape);
  shape = llama;
  shape.local_rope = RopeShape{};
  refused(shape);
  shape = llama;
  shape.post_norms = true;
  refused(shape);
  shape = shape_of(config("gemma3_text"));
  shape.embedding_scale = 1;
  refused(shape);
  shape = shape_of(config("gemma3_text"));
  shape.local_rope = RopeShape{RopeType::linear, 1e4, 2};
  refused(shape);
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
