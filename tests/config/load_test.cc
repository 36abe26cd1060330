#include "config/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "config/config_folder.h"
#include "config/describe.h"
#include "config/keys.h"

namespace maxtext {
namespace {

using testing::config_error;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TemporaryFolder;

using Variables = std::vector<std::pair<std::string, std::string>>;

Config load_file(const std::filesystem::path& file, std::vector<std::string> overrides = {}, Variables variables = {}) {
  return load_config({file, std::move(overrides), std::move(variables), std::nullopt, false});
}

std::string file_error(const std::filesystem::path& file, std::vector<std::string> overrides = {},
                       Variables variables = {}) {
  return config_error([&] { load_file(file, std::move(overrides), std::move(variables)); });
}

TEST(LoadConfig, LaterSourcesWin) {
  TemporaryFolder folder;
  folder.write("base.yml", "steps: 1\nlearning_rate: 1\nadam_b1: 0.1\nadam_b2: 0.1\nz_loss_multiplier: 0.1\n");
  folder.write("models/m.yml", "learning_rate: 2\n");
  const auto run = folder.write("run.yml",
                                "base_config: base.yml\nmodel_name: m\nadam_b1: 0.3\nadam_b2: 0.3\n"
                                "z_loss_multiplier: 0.3\n");
  const Config config =
      load_file(run, {"z_loss_multiplier=0.5"}, {{"M_ADAM_B2", "0.4"}, {"M_Z_LOSS_MULTIPLIER", "0.4"}});
  EXPECT_EQ(config.integer("steps"), 1);
  EXPECT_EQ(config.real("learning_rate"), 2);
  EXPECT_EQ(config.real("adam_b1"), 0.3);
  EXPECT_EQ(config.real("adam_b2"), 0.4);
  EXPECT_EQ(config.real("z_loss_multiplier"), 0.5);
  EXPECT_EQ(config.source("steps").where, (folder.path() / "base.yml").string() + ":1");
  EXPECT_EQ(config.source("learning_rate").where, (folder.path() / "models/m.yml").string() + ":1");
  EXPECT_EQ(config.source("adam_b1").where, run.string() + ":3");
  EXPECT_EQ(config.source("adam_b2").where, "environment M_ADAM_B2");
  EXPECT_EQ(config.source("z_loss_multiplier").where, "command line");
  EXPECT_EQ(config.source("packing").where, "default");
}

TEST(LoadConfig, LaterOverridesWin) {
  TemporaryFolder folder;
  EXPECT_EQ(load_file(folder.write("base.yml", ""), {"steps=1", "steps=2"}).integer("steps"), 2);
}

TEST(LoadConfig, TheModelMayBeNamedAnywhere) {
  TemporaryFolder folder;
  const auto base = folder.write("base.yml", "model_name: a\n");
  folder.write("models/a.yml", "base_emb_dim: 10\n");
  folder.write("models/b.yml", "base_emb_dim: 20\n");
  EXPECT_EQ(load_file(base).integer("base_emb_dim"), 10);
  EXPECT_EQ(load_file(base, {}, {{"M_MODEL_NAME", "b"}}).integer("base_emb_dim"), 20);
  EXPECT_EQ(load_file(base, {"model_name=a"}, {{"M_MODEL_NAME", "b"}}).integer("base_emb_dim"), 10);
  EXPECT_EQ(load_file(base, {"model_name=default"}).integer("base_emb_dim"), 2048);
}

TEST(LoadConfig, OverridingTheModelHasToBeAskedFor) {
  TemporaryFolder folder;
  const auto base = folder.write("base.yml", "");
  folder.write("models/m.yml", "base_emb_dim: 64\n");
  const auto run = folder.write("run.yml", "base_config: base.yml\nmodel_name: m\nbase_emb_dim: 32\n");
  EXPECT_EQ(file_error(base, {"model_name=m", "base_emb_dim=32"}),
            "base_emb_dim=32 (command line): m says 64 (" + (folder.path() / "models/m.yml").string() +
                ":1); override_model_config=true allows another value");
  EXPECT_THAT(file_error(base, {"model_name=m"}, {{"M_BASE_EMB_DIM", "32"}}), HasSubstr("override_model_config=true"));
  EXPECT_THAT(file_error(run), HasSubstr("override_model_config=true"));
  EXPECT_THAT(file_error(run, {"base_emb_dim=48"}), HasSubstr("base_emb_dim=48 (command line): m says 64"));
  EXPECT_EQ(load_file(base, {"model_name=m", "base_emb_dim=32", "override_model_config=true"}).integer("base_emb_dim"),
            32);
  EXPECT_EQ(load_file(run, {}, {{"M_OVERRIDE_MODEL_CONFIG", "true"}}).integer("base_emb_dim"), 32);
  EXPECT_EQ(load_file(base, {"model_name=m", "base_emb_dim=64"}).integer("base_emb_dim"), 64)
      << "the same value is fine";
  EXPECT_EQ(load_file(base, {"model_name=m", "base_mlp_dim=99"}).integer("base_mlp_dim"), 99)
      << "not in the model's file";
  EXPECT_EQ(load_file(base, {"base_emb_dim=32"}).integer("base_emb_dim"), 32) << "default has no file";
}

TEST(LoadConfig, RunFilesMayStandOnOneAnother) {
  TemporaryFolder folder;
  folder.write("base.yml", "steps: 1\npacking: true\n");
  folder.write("runs/first.yml", "base_config: base.yml\nsteps: 2\npacking: false\n");
  const auto second = folder.write("runs/second.yml", "steps: 3\nbase_config: first.yml\n");
  const Config config = load_file(second);
  EXPECT_EQ(config.integer("steps"), 3);
  EXPECT_FALSE(config.flag("packing"));
  EXPECT_EQ(find_base_file(second), folder.path() / "base.yml");
}

TEST(LoadConfig, ReadsYamlLists) {
  TemporaryFolder folder;
  const auto base = folder.write(
      "base.yml", "dataset_type: batches\ntrain_files: ['a b.txt', \"c,d.txt\"]\neval_files:\n  - e.txt\n  - f.txt\n");
  const Config config = load_file(base);
  EXPECT_THAT(config.list("train_files"), ElementsAre("a b.txt", "c,d.txt"));
  EXPECT_THAT(config.list("eval_files"), ElementsAre("e.txt", "f.txt"));
}

TEST(LoadConfig, StructuredValuesOfIgnoredKeysAreAccepted) {
  TemporaryFolder folder;
  EXPECT_NO_THROW(
      load_file(folder.write("base.yml", "logical_axis_rules: [['a', ['b']], ['c', []]]\nattention: flash\n")));
  EXPECT_THAT(file_error(folder.write("base-bad.yml", "steps: {a: 1}\n")),
              HasSubstr("expected a single value or a list"));
}

TEST(LoadConfig, FilesThatAreWrong) {
  TemporaryFolder folder;
  const std::string missing = file_error(folder.path() / "none.yml");
  EXPECT_EQ(missing, "configuration file '" + (folder.path() / "none.yml").string() + "' does not exist");
  EXPECT_THAT(file_error(folder.path()), HasSubstr("is a folder"));
  EXPECT_THAT(file_error("src/MaxText/configs/none.yml"), HasSubstr("nor does"));
  EXPECT_EQ(file_error(folder.write("mine.yml", "steps: 1\n")),
            (folder.path() / "mine.yml").string() +
                ": it has no base_config; a run file names the base.yml that it changes, as base_config: base.yml");
  EXPECT_THAT(file_error(testing::project_root() / "configs" / "models" / "llama3-8b.yml"),
              HasSubstr("it is the file of a model; give configs/base.yml, and model_name=llama3-8b behind it"));
  EXPECT_THAT(file_error(folder.write("a.yml", "steps: [1\n")), HasSubstr("not YAML"));
  EXPECT_THAT(file_error(folder.write("b.yml", "just words\n")), HasSubstr("expected lines of `key: value`"));
  EXPECT_THAT(file_error(folder.write("base-c.yml", "steps: 1\npacking: true\nsteps: 2\n")),
              HasSubstr("base-c.yml:3): the key stands twice"));
  EXPECT_THAT(file_error(folder.write("base-d.yml", "\nstpes: 1\n")), HasSubstr("base-d.yml:2); did you mean steps"));
  EXPECT_THAT(file_error(folder.write("e.yml", "base_config: nowhere.yml\n")), StartsWith("base_config=nowhere.yml ("));
  folder.write("x.yml", "base_config: y.yml\n");
  EXPECT_THAT(file_error(folder.write("y.yml", "base_config: x.yml\n")), HasSubstr("circle"));
  EXPECT_THAT(file_error(folder.write("base-f.yml", "steps:\n")), HasSubstr("expected an integer"));
}

TEST(LoadConfig, CommandLinesThatAreWrong) {
  TemporaryFolder folder;
  const auto base = folder.write("base.yml", "");
  EXPECT_EQ(file_error(base, {"steps"}), "argument 'steps': expected key=value");
  EXPECT_EQ(file_error(base, {"=1"}), "argument '=1': expected key=value");
  EXPECT_EQ(file_error(base, {"--steps=1"}), "argument '--steps=1': expected key=value, without dashes");
  EXPECT_THAT(file_error(base, {"stpes=1"}), HasSubstr("did you mean steps"));
  EXPECT_EQ(load_file(base, {"run_name=a=b"}).text("run_name"), "a=b") << "only the first = divides";
  EXPECT_EQ(load_file(base, {"run_name="}).text("run_name"), "");
}

TEST(LoadConfig, EnvironmentVariablesThatAreWrongOrOfOthers) {
  TemporaryFolder folder;
  const auto base = folder.write("base.yml", "");
  EXPECT_THAT(file_error(base, {}, {{"M_STPES", "1"}}), HasSubstr("'stpes' (environment M_STPES); did you mean steps"));
  EXPECT_THAT(file_error(base, {}, {{"M_STEPS", "x"}}),
              HasSubstr("steps=x (environment M_STEPS): expected an integer"));
  EXPECT_NO_THROW(
      load_file(base, {}, {{"HOME", "/"}, {"STEPS", "x"}, {"M_", "x"}, {"M_lower", "x"}, {"XM_STEPS", "x"}}));
}

TEST(LoadConfig, ReadsTheProcessEnvironment) {
  ::setenv("M_TEST_OF_MAXTEXT", "a=b", 1);
  const auto variables = process_environment();
  ::unsetenv("M_TEST_OF_MAXTEXT");
  EXPECT_THAT(variables, ::testing::Contains(std::pair<std::string, std::string>("M_TEST_OF_MAXTEXT", "a=b")));
}

TEST(LoadConfig, UnknownModelListsTheModels) {
  TemporaryFolder folder;
  const auto base = folder.write("base.yml", "");
  folder.write("models/llama2-7b.yml", "");
  folder.write("models/notes.txt", "");
  EXPECT_EQ(file_error(base, {"model_name=llama2_7b"}),
            "model_name=llama2_7b (command line): unknown model; did you mean llama2-7b; known are default, llama2-7b");
  EXPECT_THAT(file_error(base, {"model_name=../base"}), HasSubstr("unknown model"));
}

TEST(LoadConfig, ADumpGivesTheSameConfigurationAgain) {
  TemporaryFolder folder;
  for (const std::vector<std::string>& overrides :
       {std::vector<std::string>{"model_name=llama3.1-8b", "run_name=a \"quoted\" name", "steps=7", "adam_eps=1.25e-9"},
        std::vector<std::string>{"global_batch_size=8", "ici_context_parallelism=4", "dataset_type=batches",
                                 "train_files=[a b,'c,d']"},
        std::vector<std::string>{"per_device_batch_size=0.125", "num_devices=16", "ici_context_parallelism=8"}}) {
    const Config config = testing::load(overrides);
    const auto dumped =
        folder.write("dump.yml", dump_config(config, testing::base_file().string(), resolve_mesh(config)));
    const Config again = load_file(dumped);
    for (const Key& key : all_keys()) EXPECT_EQ(again.value(key.name), config.value(key.name)) << key.name;
  }
}

}  // namespace
}  // namespace maxtext
