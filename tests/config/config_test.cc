#include "config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "config/config_folder.h"

namespace maxtext {
namespace {

using testing::config_error;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Source kCommandLine{SourceKind::command_line, "command line"};

std::string set_error(const std::string& key, const std::string& text) {
  return config_error([&] { Config().set(key, text, kCommandLine); });
}

TEST(Config, DefaultsAreMaxTextsWhereItHasThem) {
  const Config config;
  EXPECT_EQ(config.integer("steps"), 150001);
  EXPECT_EQ(config.real("learning_rate"), 3e-5);
  EXPECT_EQ(config.real("per_device_batch_size"), 12.0);
  EXPECT_EQ(config.integer("max_target_length"), 2048);
  EXPECT_EQ(config.integer("dcn_data_parallelism"), -1);
  EXPECT_EQ(config.integer("ici_fsdp_parallelism"), -1);
  EXPECT_EQ(config.integer("ici_context_parallelism"), 1);
  EXPECT_TRUE(config.flag("context_parallel_load_balance"));
  EXPECT_EQ(config.text("context_parallel_strategy"), "all_gather");
  EXPECT_EQ(config.text("context_parallel_reorder_strategy"), "auto");
  EXPECT_TRUE(config.flag("packing"));
  EXPECT_EQ(config.text("remat_policy"), "full");
  EXPECT_EQ(config.integer("checkpoint_period"), 10000);
  EXPECT_EQ(config.real("adam_b1"), 0.9);
  EXPECT_EQ(config.real("adam_b2"), 0.95);
  EXPECT_EQ(config.real("adam_eps"), 1e-8);
  EXPECT_EQ(config.real("adam_weight_decay"), 0.1);
  EXPECT_EQ(config.real("gradient_clipping_threshold"), 1.0);
  EXPECT_THAT(config.list("mlp_activations"), ElementsAre("silu", "linear"));
  EXPECT_EQ(config.source("steps").where, "default");
  EXPECT_FALSE(config.is_set("steps"));
}

TEST(Config, WrongUseInCodeIsALogicError) {
  const Config config;
  EXPECT_THROW(config.integer("stpes"), std::logic_error);
  EXPECT_THROW(config.real("steps"), std::logic_error);
  EXPECT_THROW(config.text("packing"), std::logic_error);
  EXPECT_THROW(config.flag("run_name"), std::logic_error);
  EXPECT_THROW(config.list("run_name"), std::logic_error);
  EXPECT_THROW(config.text("scan_layers"), std::logic_error) << "ignored keys cannot be read";
  EXPECT_THROW(config.real("rope_theta"), std::logic_error) << "an alias is for users, not for code";
  EXPECT_THROW(config.source("stpes"), std::logic_error);
}

TEST(Config, SetsTypedValuesWithTheirSource) {
  Config config;
  config.set("steps", "1_000", kCommandLine);
  config.set("packing", "False", kCommandLine);
  config.set("remat_policy", "Minimal", kCommandLine);
  config.set("train_files", "a.txt,b.txt", kCommandLine);
  EXPECT_EQ(config.integer("steps"), 1000);
  EXPECT_FALSE(config.flag("packing"));
  EXPECT_EQ(config.text("remat_policy"), "minimal") << "enumerations are in lower case";
  EXPECT_THAT(config.list("train_files"), ElementsAre("a.txt", "b.txt"));
  EXPECT_EQ(config.describe("steps"), "steps=1000 (command line)");
  EXPECT_TRUE(config.is_set("steps"));
}

TEST(Config, TextKeepsItsCase) {
  Config config;
  config.set("run_name", "My Run", kCommandLine);
  EXPECT_EQ(config.text("run_name"), "My Run");
}

TEST(Config, AliasesSetTheirKey) {
  Config config;
  config.set("rope_theta", "500000", kCommandLine);
  config.set("cosine_learning_rate_final_fraction", "0.2", kCommandLine);
  EXPECT_EQ(config.real("rope_max_timescale"), 500000.0);
  EXPECT_EQ(config.real("learning_rate_final_fraction"), 0.2);
}

TEST(Config, NoneStandsForNoLimit) {
  Config config;
  config.set("max_num_checkpoints_to_keep", "3", kCommandLine);
  EXPECT_EQ(config.integer("max_num_checkpoints_to_keep"), 3);
  config.set("max_num_checkpoints_to_keep", "None", kCommandLine);
  EXPECT_EQ(config.integer("max_num_checkpoints_to_keep"), -1);
}

TEST(Config, OnlyDeviationsOfTheBaseFileCountAsSet) {
  const Source base{SourceKind::base_file, "base.yml:1"};
  Config config;
  config.set("steps", "150001", base);
  EXPECT_FALSE(config.is_set("steps"));
  config.set("steps", "5", base);
  EXPECT_TRUE(config.is_set("steps"));
  config.set("packing", "true", kCommandLine);
  EXPECT_TRUE(config.is_set("packing")) << "given explicitly, though equal to the default";
}

TEST(Config, NamesIgnoredKeysThatWereGiven) {
  Config config;
  config.set("scan_layers", "true", kCommandLine);
  config.set("sa_block_q", "2048", kCommandLine);
  config.set("profiler", "xplane", {SourceKind::base_file, "base.yml:1"});
  EXPECT_THAT(config.ignored_keys_set(), ::testing::UnorderedElementsAre("scan_layers", "sa_block_q"));
}

TEST(ConfigErrors, UnknownKeyNamesTheNearest) {
  EXPECT_EQ(set_error("stpes", "1"), "unknown key 'stpes' (command line); did you mean steps");
  EXPECT_THAT(set_error("ici_contxt_parallelism", "1"), HasSubstr("did you mean ici_context_parallelism"));
  EXPECT_THAT(set_error("batch_size", "1"), HasSubstr("global_batch_size"));
  EXPECT_THAT(set_error("sa_blok_q", "1"), HasSubstr("sa_block_q")) << "ignored keys only when no other is near";
  EXPECT_THAT(set_error("qqqqqqqq", "1"), HasSubstr("`maxtext config` lists all keys"));
}

TEST(ConfigErrors, WrongTypesNameKeyValueAndType) {
  EXPECT_EQ(set_error("steps", "ten"), "steps=ten (command line): expected an integer, -1 or at least 1");
  EXPECT_EQ(set_error("steps", "1.5"), "steps=1.5 (command line): expected an integer, -1 or at least 1");
  EXPECT_EQ(set_error("packing", "maybe"), "packing=maybe (command line): expected true or false");
  EXPECT_EQ(set_error("learning_rate", "fast"),
            "learning_rate=fast (command line): expected a finite number, at least 0");
  EXPECT_THAT(set_error("train_files", "a,"), HasSubstr("expected a list"));
}

TEST(ConfigErrors, RangesAreNamed) {
  EXPECT_EQ(set_error("steps", "0"), "steps=0 (command line): expected an integer, -1 or at least 1");
  EXPECT_THAT(set_error("max_target_length", "0"), HasSubstr("1 to 16777216"));
  EXPECT_THAT(set_error("max_target_length", "-5"), HasSubstr("1 to 16777216"));
  EXPECT_THAT(set_error("per_device_batch_size", "0"), HasSubstr("above 0"));
  EXPECT_THAT(set_error("warmup_steps_fraction", "1.1"), HasSubstr("0 to 1"));
  EXPECT_THAT(set_error("learning_rate", "-1"), HasSubstr("at least 0"));
  for (const char* key : {"base_emb_dim", "base_num_query_heads", "base_num_kv_heads", "head_dim", "base_mlp_dim",
                          "base_num_decoder_layers", "vocab_size", "gradient_accumulation_steps", "checkpoint_period",
                          "num_epoch", "ici_context_parallelism", "ici_data_parallelism", "num_devices"}) {
    EXPECT_THAT(set_error(key, "0"), StartsWith(std::string(key) + "=0 (command line): expected an integer, ")) << key;
    EXPECT_THAT(set_error(key, "-2"), StartsWith(std::string(key) + "=-2 (command line): expected ")) << key;
  }
}

TEST(ConfigErrors, UnknownWordsListTheAllowedOnes) {
  EXPECT_EQ(set_error("remat_policy", "most"), "remat_policy=most (command line): expected full, minimal, none");
  EXPECT_THAT(set_error("dataset_type", "csv"), HasSubstr("expected synthetic, text, tokens, batches"));
  EXPECT_THAT(set_error("dtype", "float8"), HasSubstr("expected float32, bfloat16"));
  EXPECT_THAT(set_error("context_parallel_reorder_strategy", "zigzag"),
              HasSubstr("expected auto, dual_chunk_swap, striped, balanced, none"));
}

TEST(ConfigErrors, WhatIsNotThereYetSaysSo) {
  for (const char* strategy : {"ring", "ulysses", "usp", "Ring"}) {
    EXPECT_THAT(set_error("context_parallel_strategy", strategy), HasSubstr("is not implemented yet; use all_gather"));
  }
  EXPECT_EQ(
      set_error("weight_dtype", "bfloat16"),
      "weight_dtype=bfloat16 (command line): bfloat16 is not implemented yet; use float32, which is what is there now");
  EXPECT_THAT(set_error("dtype", "float16"), HasSubstr("not implemented yet; use float32, bfloat16"));
  EXPECT_THAT(set_error("remat_policy", "minimal_flash"), HasSubstr("not implemented yet; use full, minimal, none"));
  EXPECT_THAT(set_error("remat_policy", "custom"), HasSubstr("not implemented yet; use full, minimal, none"));
  EXPECT_THAT(set_error("dataset_type", "grain"), HasSubstr("not implemented yet"));
  EXPECT_THAT(set_error("opt_type", "muon"), HasSubstr("not implemented yet; use adamw, sgd"));
  EXPECT_THAT(set_error("context_sharding", "expert"), HasSubstr("not implemented yet; use context"));
  EXPECT_THAT(set_error("decoder_block", "gemma4"), HasSubstr("not implemented yet"));
  EXPECT_THAT(set_error("attention_type", "chunk"), HasSubstr("not implemented yet"));
  EXPECT_THAT(set_error("mlp_activations", "relu,linear"), HasSubstr("relu is not implemented yet"));
}

TEST(ConfigErrors, FixedKeysAcceptTheirNeutralValueOnly) {
  Config config;
  EXPECT_NO_THROW(config.set("num_experts", "1", kCommandLine));
  EXPECT_NO_THROW(config.set("quantization", "", kCommandLine));
  EXPECT_NO_THROW(config.set("mu_dtype", "float32", kCommandLine));
  EXPECT_EQ(set_error("num_experts", "8"),
            "num_experts=8 (command line): only 1 is accepted (Mixture of experts is not implemented yet)");
  EXPECT_THAT(set_error("quantization", "int8"), HasSubstr("only \"\" is accepted"));
  EXPECT_THAT(set_error("ici_expert_parallelism", "2"),
              HasSubstr("only 1 is accepted (Mesh axis not implemented yet)"));
  EXPECT_THAT(set_error("ici_pipeline_parallelism", "-1"), HasSubstr("only 1 is accepted"));
  EXPECT_THAT(set_error("mlp_activations_limit", "7"), HasSubstr("only -1 is accepted"));
  EXPECT_THAT(set_error("mu_dtype", "bfloat16"), HasSubstr("expected"));
}

}  // namespace
}  // namespace maxtext
