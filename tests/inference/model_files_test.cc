// What the files of a model say beside its weights, where they contradict each other, and what does not fit.
#include "inference/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/available_memory.h"
#include "base/error.h"
#include "config/load.h"
#include "inference/decode_setup.h"
#include "model/layout.h"
#include "testing/model_copy.h"
#include "testing/temporary_directory.h"

namespace maxtext::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

const std::string kHead = "lm_head.weight";
const std::string kEmbedding = "model.embed_tokens.weight";

Config config_of(std::vector<std::string> overrides) {
  ConfigRequest request;
  request.file = fs::absolute(__FILE__).parent_path().parent_path().parent_path() / "configs" / "base.yml";
  request.check_files = false;
  request.overrides = std::move(overrides);
  return load_config(request);
}

class ModelFilesTest : public ::testing::Test {
 protected:
  fs::path copy(const std::string& name) const { return copy_model(name, directory_.path()); }
  static ModelFiles open(const fs::path& model) {
    return open_model_files(config_of({"load_parameters_path=" + model.string()}));
  }
  static std::set<std::int32_t> stop_ids(const fs::path& model, const std::string& more = "ignore_eos=false") {
    const Config config = config_of(
        {"load_parameters_path=" + model.string(), "tokenizer_type=bytes", "max_target_length=80", "prompt=abc", more});
    return decode_setup(config).requests.at(0).stop_ids;
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(ModelFilesTest, AnAnswerEndsAtTheStopIdsOfEveryFileTogether) {
  const fs::path model = copy("llama-tied");
  EXPECT_THAT(stop_ids(model), ElementsAre(2, 257)) << "config.json has 2, the bytes tokenizer 257";
  change_json(model / "generation_config.json", {{"eos_token_id", {7, 9}}});
  EXPECT_THAT(stop_ids(model), ElementsAre(2, 7, 9, 257));
  change_json(model / "generation_config.json", {{"eos_token_id", 9}});
  change_json(model / "config.json", {{"eos_token_id", {11, 2}}});
  EXPECT_THAT(stop_ids(model), ElementsAre(2, 9, 11, 257));
  change_json(model / "config.json", {{"eos_token_id", nullptr}});
  EXPECT_THAT(stop_ids(model), ElementsAre(9, 257));
  EXPECT_THAT(stop_ids(model, "ignore_eos=true"), IsEmpty());
}

TEST_F(ModelFilesTest, StopIdsThatAreNoneNameFileAndValue) {
  const fs::path model = copy("llama-tied");
  for (const nlohmann::json& wrong : {nlohmann::json("</s>"), nlohmann::json({1, "x"}), nlohmann::json(-1),
                                      nlohmann::json(4294967298), nlohmann::json(1.5)}) {
    for (const std::string file : {"config.json", "generation_config.json"}) {
      change_json(model / "config.json", {{"eos_token_id", 2}});
      change_json(model / file, {{"eos_token_id", wrong}});
      EXPECT_THAT([&] { open(model); },
                  ThrowsMessage<ConfigError>(AllOf(HasSubstr("load_parameters_path=" + model.string()),
                                                   HasSubstr(file + ": eos_token_id=" + wrong.dump()))));
    }
  }
}

TEST_F(ModelFilesTest, AHeadThatIsMissingIsTheEmbeddingWhateverTheConfigurationSays) {
  const fs::path model = copy("llama");
  EXPECT_FALSE(open(model).shape.tie_word_embeddings);
  EXPECT_THAT(open(model).warnings, IsEmpty());
  std::vector<OwnedTensor> tensors = read_tensors(model / "model.safetensors");
  std::erase_if(tensors, [](const OwnedTensor& tensor) { return tensor.name == kHead; });
  write_tensors(model / "model.safetensors", tensors);
  const ModelFiles files = open(model);
  EXPECT_TRUE(files.shape.tie_word_embeddings);
  EXPECT_THAT(files.warnings, ElementsAre(AllOf(HasSubstr("warning: load_parameters_path=" + model.string()),
                                                HasSubstr("there is no " + kHead))));
  change_json(model / "config.json", {{"tie_word_embeddings", true}});
  EXPECT_THAT(open(model).warnings, IsEmpty());
}

TEST_F(ModelFilesTest, AHeadBesideATiedEmbeddingIsLeftUnreadAndSaidToDifferIfItDoes) {
  const fs::path model = copy("llama-tied");
  std::vector<OwnedTensor> tensors = read_tensors(model / "model.safetensors");
  OwnedTensor head = *std::ranges::find(tensors, kEmbedding, &OwnedTensor::name);
  head.name = kHead;
  tensors.push_back(head);
  write_tensors(model / "model.safetensors", tensors);
  EXPECT_TRUE(open(model).shape.tie_word_embeddings);
  EXPECT_THAT(open(model).warnings, IsEmpty()) << "the same twice";
  tensors.back().bytes.assign(head.bytes.size(), std::byte{0});
  write_tensors(model / "model.safetensors", tensors);
  EXPECT_TRUE(open(model).shape.tie_word_embeddings);
  EXPECT_THAT(open(model).warnings,
              ElementsAre(AllOf(HasSubstr(kHead + " is not " + kEmbedding), HasSubstr("the embedding is used"))));
  change_json(model / "config.json", {{"tie_word_embeddings", false}});
  EXPECT_FALSE(open(model).shape.tie_word_embeddings);
  EXPECT_THAT(open(model).warnings, IsEmpty());
}

TEST_F(ModelFilesTest, WhatDoesNotFitIntoMemoryIsRefusedWithWhatIsNeededAndThere) {
  // 32 layers of 32 heads of 128 in float32: a mebibyte for each position.
  const Config config = config_of({"model_name=llama2-7b", "tokenizer_type=bytes", "max_target_length=10000000"});
  const double weights = static_cast<double>(parameter_count(model_layout(model_shape(config)))) * 4 / (1 << 30);
  EXPECT_THAT([&] { decode_setup(config); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr(fmt::format("{:.2f} GiB of weights and {:.2f} GiB of KV cache", weights, 1e7 / 1024)),
                        HasSubstr("max_target_length=10000000"), HasSubstr("GiB are available"))));
  ASSERT_TRUE(available_memory().has_value());
}

}  // namespace
}  // namespace maxtext::testing
