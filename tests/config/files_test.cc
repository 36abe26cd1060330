// The project's own configuration files and the documents made from the key table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "config/config_folder.h"
#include "config/describe.h"
#include "config/model_shape.h"

namespace maxtext {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::load;
using testing::project_root;
using testing::read_file;
using ::testing::StartsWith;

constexpr const char* kHowToUpdate = "run scripts/update_config_docs";

TEST(ConfigFiles, BaseYmlIsUpToDate) {
  EXPECT_EQ(read_file(project_root() / "configs/base.yml"), base_yaml()) << kHowToUpdate;
}

TEST(ConfigFiles, DocumentationIsUpToDate) {
  EXPECT_EQ(read_file(project_root() / "docs/configuration.md"), configuration_markdown()) << kHowToUpdate;
}

TEST(ConfigFiles, BaseYmlSetsNothing) {
  const Config config = load({});
  for (const Key& key : all_keys()) EXPECT_FALSE(config.is_set(key.name)) << key.name;
}

TEST(ConfigFiles, EveryModelLoads) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(project_root() / "configs/models")) {
    SCOPED_TRACE(entry.path().string());
    const Config config = load({"model_name=" + entry.path().stem().string()});
    EXPECT_GT(parameter_count(model_shape(config)), 0);
    ++count;
  }
  EXPECT_GE(count, 14);
}

TEST(ConfigFiles, EveryRunFileLoads) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(project_root() / "configs/runs")) {
    SCOPED_TRACE(entry.path().string());
    EXPECT_NO_THROW(load_config({entry.path(), {}, {}, std::nullopt, false}));
    ++count;
  }
  EXPECT_GE(count, 1);
}

TEST(ConfigFiles, TheLongContextBenchmarkIsMaxTexts) {
  const Config config =
      load_config({project_root() / "configs/runs/llama3_1_70b_131072.yml", {}, {}, std::nullopt, false});
  const MeshSizes mesh = resolve_mesh(config);
  EXPECT_THAT(mesh, ElementsAre(1, 16, 16, 1));
  EXPECT_EQ(resolve_batch(config, mesh).global, 32);
  EXPECT_EQ(config.integer("max_target_length"), 131072);
  EXPECT_EQ(parameter_count(model_shape(config)), 70553706496);
  EXPECT_TRUE(config.ignored_keys_set().empty());
}

TEST(ConfigFiles, LoadWellWithinHalfASecond) {
  const auto start = std::chrono::steady_clock::now();
  load({"model_name=llama3.1-70b"});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
}

TEST(Describe, AKeyShowsTypeDefaultAllowedAndHelp) {
  EXPECT_THAT(describe_key(all_keys()[*find_key("remat_policy")]),
              StartsWith("remat_policy\n  type     string\n  default  full\n  allowed  full, minimal, none\n"
                         "  not yet  minimal_with_context, "));
  const std::string theta = describe_key(all_keys()[*find_key("rope_theta")]);
  EXPECT_THAT(theta, HasSubstr("rope_max_timescale\n  type     float\n  default  10000\n  allowed  above 1\n"));
  EXPECT_THAT(theta, HasSubstr("  also     rope_theta\n"));
  EXPECT_THAT(describe_key(all_keys()[*find_key("global_batch_size")]), HasSubstr("(not in MaxText)"));
}

TEST(Describe, TheListHasEveryActiveKeyOnce) {
  const std::string text = describe_all_keys();
  for (const Key& key : all_keys()) {
    const std::string line = "\n  " + key.name + " = ";
    const auto first = text.find(line);
    EXPECT_EQ(first != std::string::npos, key.status == KeyStatus::active) << key.name;
    if (first == std::string::npos) continue;
    EXPECT_EQ(text.find(line, first + 1), std::string::npos) << key.name;
  }
}

TEST(Describe, TheDocumentationHasEveryKey) {
  const std::string text = configuration_markdown();
  for (const Key& key : all_keys()) EXPECT_THAT(text, HasSubstr("`" + key.name + "`"));
}

TEST(Describe, ADumpSaysWhereValuesComeFrom) {
  const Config config = load({"model_name=llama-tiny", "ici_context_parallelism=2", "per_device_batch_size=0.5"});
  const std::string text = dump_config(config, "configs/base.yml", resolve_mesh(config));
  EXPECT_THAT(text, HasSubstr("base_config: configs/base.yml\n"));
  EXPECT_THAT(text, HasSubstr("\nici_context_parallelism: 2  # command line\n"));
  EXPECT_THAT(text, HasSubstr("\nsteps: 150001  # default\n"));
  EXPECT_THAT(text, HasSubstr("\nbase_emb_dim: 64  # "));
  EXPECT_THAT(text, HasSubstr("models/llama-tiny.yml:"));
  EXPECT_THAT(text, HasSubstr("\n# mesh: data 1, fsdp 1, context 2, tensor 1: 2 devices\n"));
  EXPECT_THAT(text, HasSubstr("\n# rows per step: 1, per micro-batch: 1, per device and micro-batch: 0.5\n"));
  EXPECT_THAT(text, HasSubstr("\n# parameters: 139584\n"));
}

TEST(Describe, ADumpLeavesOutWhatWouldDecideOnceItIsGiven) {
  const auto dump = [](const std::vector<std::string>& overrides) {
    const Config config = load(overrides);
    return dump_config(config, "configs/base.yml", resolve_mesh(config));
  };
  const std::string left_out = dump({"prompt_file=prompts.jsonl", "global_batch_size=2"});
  EXPECT_THAT(left_out, HasSubstr("\nprompt_file: "));
  for (const std::string key : {"prompt", "tokenizer_type", "per_device_batch_size"}) {
    EXPECT_THAT(left_out, ::testing::Not(HasSubstr("\n" + key + ": "))) << key;
  }
  const std::string given = dump({"prompt=I love to", "tokenizer_type=sentencepiece"});
  EXPECT_THAT(given, HasSubstr("\nprompt: "));
  EXPECT_THAT(given, HasSubstr("\ntokenizer_type: sentencepiece  # command line\n"));
}

}  // namespace
}  // namespace maxtext
