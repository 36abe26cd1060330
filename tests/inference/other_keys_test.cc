// Model keys beside a config.json: which of them contradict it, when others were left at their defaults.
#include "inference/other_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "base/error.h"
#include "config/load.h"
#include "inference/model_files.h"
#include "testing/model_copy.h"
#include "testing/temporary_directory.h"

namespace maxtext::testing {
namespace {

namespace fs = std::filesystem;

const std::string kGemma3 =
    "decoder_block=gemma3 use_qk_norm=true use_post_attn_norm=true use_post_ffw_norm=true mlp_activations=gelu,linear ";

class OtherKeys : public ::testing::Test {
 protected:
  /// What is said of these keys beside the model's config.json; nothing where they are accepted.
  std::string refusal(const std::string& model, const std::string& keys) const {
    ConfigRequest request;
    request.file = fs::absolute(__FILE__).parent_path().parent_path().parent_path() / "configs" / "base.yml";
    request.check_files = false;
    std::istringstream words("load_parameters_path=" + (folder_.path() / model).string() + " " + keys);
    for (std::string word; words >> word;) request.overrides.push_back(word);
    const Config config = load_config(request);
    try {
      open_model_files(config);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

  void expect_accepted(const std::string& model, const std::vector<std::string>& lists) const {
    copy_model(model, folder_.path());
    for (const std::string& keys : lists) EXPECT_EQ(refusal(model, keys), "") << keys;
  }

  /// `blamed` is the beginning of what is said behind the path.
  void expect_refused(const std::string& model, const std::string& keys, const std::string& blamed) const {
    copy_model(model, folder_.path());
    EXPECT_THAT(refusal(model, keys), ::testing::HasSubstr(": " + blamed + " (command line): its config.json gives "))
        << keys;
  }

  TemporaryDirectory folder_;
};

TEST_F(OtherKeys, SizesAreComparedWithTheirScale) {
  const std::string halves = "global_parameter_scale=2 base_mlp_dim=48 base_num_query_heads=2 base_num_kv_heads=2 ";
  expect_accepted("llama31", {"global_parameter_scale=1", "base_emb_dim=64", "base_emb_dim=64 global_parameter_scale=1",
                              halves + "base_emb_dim=64 base_num_decoder_layers=3"});
  expect_refused("llama31", "base_emb_dim=48", "base_emb_dim=48");
  expect_refused("llama31", "base_emb_dim=2048", "base_emb_dim=2048");
  expect_refused("llama31", "base_emb_dim=48 global_parameter_scale=1", "base_emb_dim=48");
  expect_refused("llama31", "global_parameter_scale=2", "global_parameter_scale=2");
  expect_refused("llama31", "base_emb_dim=64 global_parameter_scale=4", "global_parameter_scale=4");
}

TEST_F(OtherKeys, TheFamilyIsComparedWithoutWhatWasNotGiven) {
  expect_accepted("mistral", {"mlp_activations=silu,linear", "decoder_block=mistral"});
  expect_accepted("qwen2", {"decoder_block=qwen2", "decoder_block=qwen2 attention_bias=true"});
  expect_accepted("llama31", {"decoder_block=llama2", "decoder_block=qwen2"});
  expect_accepted("gemma3", {kGemma3});
  expect_refused("mistral", "mlp_activations=silu,linear decoder_block=llama2", "decoder_block=llama2");
  expect_refused("qwen2", "decoder_block=llama2", "decoder_block=llama2");
  expect_refused("qwen2", "decoder_block=qwen2 attention_bias=false", "attention_bias=false");
  expect_refused("llama31", "decoder_block=mistral", "decoder_block=mistral");
  expect_refused("gemma2", "mlp_activations=silu,linear", "mlp_activations=[silu, linear]");
}

TEST_F(OtherKeys, ThePartsOfRoPEAreComparedOneByOne) {
  const std::string type = "rope_type=llama3.1 ";
  expect_accepted("llama31", {"rope_scaling_factor=8", "rope_original_max_position_embeddings=32", type,
                              type + "rope_scaling_factor=8", "rope_low_freq_factor=1 rope_high_freq_factor=4",
                              "rope_use_scale=true rope_linear_scaling_factor=1", "beta_fast=16 rope_truncate=false"});
  for (const std::string wrong : {"rope_scaling_factor=4", "rope_original_max_position_embeddings=8192",
                                  "rope_low_freq_factor=2", "rope_high_freq_factor=5", "rope_use_scale=false"}) {
    expect_refused("llama31", wrong, wrong);
    expect_refused("llama31", type + "rope_original_max_position_embeddings=32 rope_scaling_factor=8 " + wrong, wrong);
  }
  expect_refused("llama31", "rope_type=default rope_scaling_factor=8", "rope_type=default");
  expect_refused("llama31", "rope_type=yarn rope_scaling_factor=8", "rope_type=yarn");
  expect_refused("llama31", "rope_linear_scaling_factor=2", "rope_linear_scaling_factor=2");
  expect_refused("llama31", "rope_scaling_factor=8 rope_theta=500000", "rope_max_timescale=500000");

  expect_accepted("mistral", {"rope_scaling_factor=4", type + "rope_use_scale=false"});
  expect_refused("mistral", type + "rope_scaling_factor=4", "rope_type=llama3.1");

  const fs::path yarn = copy_model("llama", folder_.path());
  change_json(yarn / "config.json", {{"rope_parameters",
                                      {{"rope_type", "yarn"},
                                       {"rope_theta", 10000.0},
                                       {"factor", 4},
                                       {"original_max_position_embeddings", 64},
                                       {"beta_fast", 16},
                                       {"beta_slow", 2}}}});
  for (const char* right : {"rope_scaling_factor=4", "beta_fast=16 beta_slow=2", "rope_attention_scaling=true",
                            "rope_type=yarn rope_scaling_factor=4", "rope_use_scale=false rope_low_freq_factor=3"}) {
    EXPECT_EQ(refusal("llama", right), "") << right;
  }
  for (const std::string wrong : {"rope_scaling_factor=8", "beta_fast=32", "beta_slow=1", "rope_truncate=false",
                                  "rope_attention_scaling=false", "rope_linear_scaling_factor=2"}) {
    EXPECT_THAT(refusal("llama", wrong),
                ::testing::HasSubstr(": " + wrong + " (command line): its config.json gives "));
  }
}

TEST_F(OtherKeys, WindowsAreComparedBySizeAndByLayer) {
  const std::string size = "sliding_window_size=24 ";
  expect_accepted("mistral", {size + "attention_type=local_sliding", size + "attention_layer_pattern=local_sliding"});
  expect_refused("mistral", "sliding_window_size=16 attention_type=local_sliding", "sliding_window_size=16");
  expect_refused("mistral", size + "attention_layer_pattern=local_sliding,global",
                 "attention_layer_pattern=[local_sliding, global]");
  expect_refused("mistral", "sliding_window_size=0", "sliding_window_size=0");
  expect_refused("mistral", "attention_type=global", "attention_type=global");
  const std::string pattern = "attention_layer_pattern=local_sliding,global ";
  expect_accepted("gemma2", {pattern + "sliding_window_size=16"});
  expect_refused("gemma2", pattern + "attention_type=global sliding_window_size=8", "sliding_window_size=8");
  expect_refused("llama31", "sliding_window_size=8 attention_type=local_sliding", "attention_type=local_sliding");
}

TEST_F(OtherKeys, WhatFollowsFromOtherKeysIsComparedWithThoseOfTheModel) {
  expect_accepted("llama31", {"query_scale=0", "query_scale=0.25"});
  expect_refused("llama31", "query_scale=1", "query_scale=1");
  expect_refused("gemma2", "query_scale=0", "query_scale=0");
  expect_accepted("gemma3", {kGemma3 + "local_rope_max_timescale=10000", "rope_linear_scaling_factor=8"});
  expect_refused("gemma3", kGemma3 + "local_rope_max_timescale=20000", "local_rope_max_timescale=20000");
  expect_refused("gemma3", "local_rope_max_timescale=-1", "local_rope_max_timescale=-1");
}

}  // namespace
}  // namespace maxtext::testing
