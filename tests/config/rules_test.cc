#include "config/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config_folder.h"

namespace maxtext {
namespace {

using ::testing::HasSubstr;
using testing::load;
using testing::load_error;
using testing::TemporaryFolder;

/// The error of loading for a run: files must be there.
std::string run_error(std::vector<std::string> overrides) {
  return testing::config_error([&] {
    load_config({testing::base_file(), std::move(overrides), {}, std::nullopt, true});
  });
}

void expect_run_is_fine(std::vector<std::string> overrides) {
  EXPECT_NO_THROW(load_config({testing::base_file(), std::move(overrides), {}, std::nullopt, true}));
}

TEST(Rules, TheDefaultsAreFineToLookAt) { EXPECT_NO_THROW(load({})); }

TEST(Rules, ACommandLineOfMaxTextRuns) {
  expect_run_is_fine({"run_name=test",
                      "base_output_directory=out",
                      "model_name=llama3.1-8b",
                      "steps=10",
                      "per_device_batch_size=0.25",
                      "ici_context_parallelism=4",
                      "ici_fsdp_parallelism=1",
                      "max_target_length=8192",
                      "dataset_type=synthetic",
                      "enable_checkpointing=false",
                      "packing=false",
                      "attention=dot_product",
                      "scan_layers=true",
                      "remat_policy=full",
                      "dtype=float32",
                      "weight_dtype=float32",
                      "hardware=cpu",
                      "profiler=xplane",
                      "sa_block_q=2048",
                      "dcn_data_parallelism=1",
                      "ici_tensor_parallelism=1",
                      "ici_expert_parallelism=1",
                      "enable_dropout=false",
                      "tokenizer_path=assets/tokenizer.llama2",
                      "log_period=10"});
}

TEST(Rules, MeshMustFitTheDevices) {
  EXPECT_THAT(load_error({"ici_context_parallelism=3"}, 4), HasSubstr("expected a divisor of 4"));
  EXPECT_THAT(load_error({"ici_context_parallelism=-1"}), HasSubstr("at most one ici axis may be -1"));
  EXPECT_THAT(load_error({"dcn_fsdp_parallelism=2", "num_slices=1"}), HasSubstr("num_slices=1"));
  EXPECT_NO_THROW(load({"dcn_data_parallelism=2"})) << "the slices follow from the axes";
}

TEST(Rules, TensorParallelismIsAnAxisLikeTheOthers) {
  EXPECT_NO_THROW(load({"ici_tensor_parallelism=2"}));
  EXPECT_NO_THROW(load({"ici_tensor_parallelism=-1", "ici_fsdp_parallelism=1"}, 2));
  EXPECT_NO_THROW(load({"dcn_tensor_parallelism=2", "num_slices=2"}));
  EXPECT_THAT(load_error({"ici_tensor_parallelism=3"}, 4), HasSubstr("expected a divisor of 4"));
}

TEST(Rules, BatchMustBeDivisible) {
  EXPECT_THAT(load_error({"global_batch_size=3", "num_devices=2"}), HasSubstr("global_batch_size=3"));
  EXPECT_THAT(load_error({"per_device_batch_size=0.5"}), HasSubstr("per_device_batch_size=0.5"));
}

TEST(Rules, HeadsMustDivide) {
  EXPECT_EQ(load_error({"base_num_query_heads=6", "base_num_kv_heads=4"}),
            "base_num_query_heads=6 (command line): expected a multiple of base_num_kv_heads=4");
  EXPECT_THAT(load_error({"head_dim=15"}), HasSubstr("head_dim=15 (command line): expected an even number"));
}

TEST(Rules, WindowsAreNeverDropped) {
  EXPECT_THAT(load_error({"sliding_window_size=8"}), HasSubstr("no layer has a window"));
  EXPECT_THAT(load_error({"attention_type=local_sliding"}), HasSubstr("sliding_window_size=0 (default): layers with"));
  EXPECT_THAT(load_error({"attention_layer_pattern=global,local_sliding"}), HasSubstr("sliding_window_size=0"));
  EXPECT_THAT(load_error({"attention_layer_pattern=global,local_sliding", "sliding_window_size=8",
                          "base_num_decoder_layers=1"}),
              HasSubstr("no layer has a window"));
  EXPECT_NO_THROW(load({"attention_type=local_sliding", "sliding_window_size=8"}));
}

TEST(Rules, AFamilyHasTheParametersOfItsFamily) {
  EXPECT_THAT(load_error({"attention_bias=true"}),
              HasSubstr("decoder_block=llama2 has no biases; use decoder_block=qwen2"));
  EXPECT_EQ(load_error({"use_qk_norm=true"}),
            "use_qk_norm=true (command line): decoder_block=llama2 needs use_qk_norm=false");
  EXPECT_EQ(load_error({"decoder_block=qwen3"}),
            "use_qk_norm=false (default): decoder_block=qwen3 needs use_qk_norm=true");
  EXPECT_THAT(load_error({"decoder_block=qwen3", "use_qk_norm=true", "attention_bias=true"}),
              HasSubstr("has no biases"));
  EXPECT_THAT(load_error({"mlp_activations=linear,silu"}), HasSubstr("expected [silu, linear]"));
  EXPECT_THAT(load_error({"mlp_activations=silu"}), HasSubstr("expected [silu, linear]"));
  EXPECT_THAT(load_error({"normalize_embedding_logits=true"}), HasSubstr("only false is accepted"));
}

TEST(Rules, GemmaHasItsNormsAndGateAndNobodyElse) {
  EXPECT_EQ(load_error({"decoder_block=gemma2"}),
            "use_post_attn_norm=false (default): decoder_block=gemma2 needs use_post_attn_norm=true");
  EXPECT_THAT(load_error({"decoder_block=gemma2", "use_post_attn_norm=true"}), HasSubstr("use_post_ffw_norm=true"));
  EXPECT_THAT(load_error({"decoder_block=gemma2", "use_post_attn_norm=true", "use_post_ffw_norm=true"}),
              HasSubstr("expected [gelu, linear] with decoder_block=gemma2"));
  EXPECT_THAT(load_error({"use_post_ffw_norm=true"}), HasSubstr("decoder_block=llama2 needs use_post_ffw_norm=false"));
  EXPECT_THAT(load_error({"mlp_activations=gelu,linear"}), HasSubstr("expected [silu, linear]"));
  EXPECT_EQ(
      load_error({"attn_logits_soft_cap=50"}),
      "attn_logits_soft_cap=50 (command line): decoder_block=llama2 has no soft caps; use decoder_block=gemma2 or "
      "gemma3");
  EXPECT_THAT(load_error({"final_logits_soft_cap=30"}), HasSubstr("has no soft caps"));
  EXPECT_THAT(load_error({"final_logits_soft_cap=-1"}), HasSubstr("expected"));
  EXPECT_THAT(load_error({"local_rope_max_timescale=5000"}), HasSubstr("use decoder_block=gemma3"));
  EXPECT_THAT(load_error({"model_name=gemma2-2b", "local_rope_max_timescale=5000"}),
              HasSubstr("use decoder_block=gemma3"));
}

TEST(Rules, ParameterScaleIsAPowerOfTwo) {
  EXPECT_THAT(load_error({"global_parameter_scale=3"}), HasSubstr("expected a power of two"));
  EXPECT_NO_THROW(load({"global_parameter_scale=4"}));
}

TEST(Rules, RotaryScalingFitsItsType) {
  EXPECT_THAT(load_error({"rope_type=llama3.1", "rope_linear_scaling_factor=2"}), HasSubstr("use rope_scaling_factor"));
  EXPECT_THAT(load_error({"rope_type=llama3.1", "rope_high_freq_factor=1"}),
              HasSubstr("expected a number above rope_low_freq_factor=1"));
  EXPECT_THAT(load_error({"rope_type=yarn", "rope_linear_scaling_factor=2"}),
              HasSubstr("no effect with rope_type=yarn"));
  EXPECT_THAT(load_error({"rope_type=yarn", "beta_slow=32"}), HasSubstr("expected a number above beta_slow=32"));
}

TEST(Rules, Schedule) {
  EXPECT_THAT(load_error({"steps=-1"}), HasSubstr("steps=-1 (command line): -1 takes learning_rate_schedule_steps"));
  EXPECT_NO_THROW(load({"steps=-1", "learning_rate_schedule_steps=10"}));
  EXPECT_EQ(
      load_error({"lr_schedule_type=wsd", "warmup_steps_fraction=0.6", "wsd_decay_steps_fraction=0.5"}),
      "warmup_steps_fraction=0.6 (command line) and wsd_decay_steps_fraction=0.5 (command line): their sum is above 1");
  EXPECT_NO_THROW(load({"lr_schedule_type=wsd", "warmup_steps_fraction=0.5", "wsd_decay_steps_fraction=0.5"}));
  EXPECT_NO_THROW(load({"warmup_steps_fraction=1", "wsd_decay_steps_fraction=0.5"})) << "a cosine has no decay phase";
}

TEST(Rules, DecayRatesStayBelowOne) {
  EXPECT_EQ(load_error({"adam_b1=1"}), "adam_b1=1 (command line): expected a number below 1");
  EXPECT_THAT(load_error({"adam_b2=1.0"}), HasSubstr("adam_b2=1"));
}

TEST(Rules, OnlyOneCheckpointToStartFrom) {
  EXPECT_EQ(load_error({"load_parameters_path=a", "load_full_state_path=b"}),
            "load_parameters_path=a (command line) and load_full_state_path=b (command line): set only one");
}

TEST(Rules, CheckpointsNeedARunName) {
  EXPECT_THAT(run_error({}), HasSubstr("run_name=\"\" (default): checkpoints need a name for the run"));
  expect_run_is_fine({"enable_checkpointing=false"});
  expect_run_is_fine({"run_name=a"});
  EXPECT_NO_THROW(load_config({testing::base_file(), {}, {}, std::nullopt, true, false})) << "nothing is saved";
}

TEST(Rules, DataOtherThanSyntheticNeedsFiles) {
  EXPECT_THAT(load_error({"dataset_type=tokens"}), HasSubstr("dataset_type=tokens (command line): needs data"));
  EXPECT_THAT(load_error({"dataset_type=text", "dataset_path=a.txt"}), HasSubstr("set tokenizer_path"));
  EXPECT_NO_THROW(load({"dataset_type=text", "dataset_path=a.txt", "tokenizer_type=bytes"}));
  EXPECT_NO_THROW(load({"dataset_type=batches", "train_files=a.safetensors"}));
  EXPECT_THAT(load_error({"train_data_columns=a,b"}), HasSubstr("expected one field name"));
  EXPECT_THAT(load_error({"eval_data_columns=[]"}), HasSubstr("expected one field name"));
}

TEST(Rules, SyntheticTokensTakeTheirPlaceOfNoData) {
  EXPECT_EQ(load_error({"dataset_path=mytext"}),
            "dataset_path=mytext (command line): dataset_type=synthetic (default) reads no files; set "
            "dataset_type=text, tokens or batches");
  EXPECT_THAT(load_error({"train_files=a.txt"}),
              HasSubstr("train_files=[a.txt] (command line): dataset_type=synthetic"));
  EXPECT_THAT(load_error({"dataset_type=synthetic", "train_files=a.txt"}), HasSubstr("dataset_type=synthetic"));
  EXPECT_THAT(load_error({"dataset_type=synthetic", "eval_files=a.txt"}), HasSubstr("eval_files"));
  EXPECT_THAT(load_error({"eval_split_fraction=0.1"}), HasSubstr("dataset_type=synthetic"));
  EXPECT_NO_THROW(load({"dataset_type=synthetic", "train_files=[]", "eval_split_fraction=0"}));
}

TEST(Rules, ARunHasAFolderOfItsOwn) {
  for (const char* name : {"a/b", "/a", "..", ".", "dataset_cache"}) {
    EXPECT_THAT(load_error({std::string("run_name=") + name}), HasSubstr("expected the name of a folder of its own"));
  }
  EXPECT_THAT(load_error({"run_name=a\tb"}), HasSubstr("run_name: it has a control character"));
  EXPECT_NO_THROW(load({"run_name=a.b..c"}));
}

TEST(Rules, ObjectStoresAreRefused) {
  EXPECT_EQ(
      load_error({"base_output_directory=gs://bucket/runs"}),
      "base_output_directory=\"gs://bucket/runs\" (command line): gs:// paths are not supported; give a local path");
  EXPECT_THAT(load_error({"metrics_file=s3://bucket/m"}), HasSubstr("s3:// paths are not supported"));
  EXPECT_THAT(load_error({"load_parameters_path=gs://bucket/0/items"}), HasSubstr("not supported"));
  EXPECT_THAT(load_error({"dataset_type=tokens", "train_files=gs://bucket/a.npy"}), HasSubstr("not supported"));
  EXPECT_NO_THROW(load({"dataset_type=synthetic", "dataset_path=gs://bucket/data"})) << "which nobody reads";
}

TEST(Rules, EvaluationNeedsHeldOutData) {
  const std::vector<std::string> data = {"dataset_type=tokens", "dataset_path=a.npy"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), data.begin(), data.end());
    return more;
  };
  EXPECT_EQ(load_error(with({"eval_interval=10"})),
            "eval_interval=10 (command line): there is no held-out data; set eval_files or eval_split_fraction");
  EXPECT_NO_THROW(load(with({"eval_interval=10", "eval_split_fraction=0.1"})));
  EXPECT_NO_THROW(load(with({"eval_interval=10", "eval_files=b.npy"})));
  EXPECT_THAT(load_error(with({"eval_files=b.npy", "eval_split_fraction=0.1"})), HasSubstr("set only one"));
  EXPECT_THAT(load_error({"dataset_type=batches", "dataset_path=a", "eval_split_fraction=0.1"}),
              HasSubstr("batches cannot be split"));
  EXPECT_NO_THROW(load({"eval_interval=10"})) << "synthetic data has a held-out part";
}

TEST(Rules, FilesMustExistForARun) {
  TemporaryFolder folder;
  const std::string present = folder.write("data/a.npy", "x").string();
  const std::string absent = (folder.path() / "nothing").string();
  const std::string run = "run_name=r";
  EXPECT_THAT(run_error({run, "dataset_type=tokens", "dataset_path=" + absent}), HasSubstr("no such file or folder"));
  EXPECT_THAT(run_error({run, "dataset_type=tokens", "dataset_path=" + absent + "/*.npy"}),
              HasSubstr("no such file or folder"));
  EXPECT_THAT(run_error({run, "dataset_type=tokens", "train_files=" + present + "," + absent}),
              HasSubstr("nothing matches '" + absent + "'"));
  EXPECT_THAT(run_error({run, "dataset_type=tokens", "train_files=" + present, "eval_files=" + absent}),
              HasSubstr("eval_files="));
  EXPECT_THAT(run_error({run, "dataset_type=text", "dataset_path=" + present, "tokenizer_path=" + absent}),
              HasSubstr("tokenizer_path="));
  EXPECT_THAT(run_error({run, "load_parameters_path=" + absent}), HasSubstr("load_parameters_path="));
  EXPECT_THAT(run_error({run, "load_full_state_path=" + absent}), HasSubstr("load_full_state_path="));

  expect_run_is_fine({run, "dataset_type=tokens", "dataset_path=" + present});
  expect_run_is_fine({run, "dataset_type=tokens", "dataset_path=" + folder.path().string() + "/data/*.npy"});
  expect_run_is_fine({run, "dataset_type=tokens", "dataset_path=" + folder.path().string(), "train_files=data/a.npy"});
  // As MaxText's command lines have it; synthetic data reads none.
  expect_run_is_fine({run, "dataset_type=synthetic", "dataset_path=" + absent, "tokenizer_path=" + absent});
  EXPECT_NO_THROW(load({"dataset_type=tokens", "dataset_path=" + absent})) << "only looking";
}

}  // namespace
}  // namespace maxtext
