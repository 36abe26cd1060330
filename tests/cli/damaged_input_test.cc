// Which checkpoint commands read, and what they say of one that is incomplete, damaged or another model's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/decode_fixture.h"
#include "testing/model_copy.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class DamagedInput : public DecodeCommand {
 protected:
  void SetUp() override {
    DecodeCommand::SetUp();
    write("text.txt", "a text");
    ASSERT_EQ(run("convert '" + model() + "' '" + path("run") + "'"), 0) << err();
    for (const int step : {2, 3}) fs::copy(checkpoint(0), checkpoint(step), fs::copy_options::recursive);
  }

  fs::path checkpoint(int step) const { return path("run/checkpoints/" + std::to_string(step)); }

  /// Every command that takes the newest checkpoint of a run, with the key that it names the run by.
  std::vector<std::pair<std::string, std::string>> commands() {
    const std::string key = "load_parameters_path=" + path("run");
    const std::string rest = " configs/base.yml tokenizer_type=bytes max_target_length=70 '" + key + "' ";
    const std::string written = path("written" + std::to_string(++written_));
    return {{"decode" + rest + "prompt=abc", key},
            {"eval" + rest + "eval_files='" + path("text.txt") + "'", key},
            {"check-logits" + rest + "prompt=abc --atol 1e-3", key},
            {"convert '" + path("run") + "' '" + written + "'", "FROM " + path("run")},
            {"generate-param-only-checkpoint configs/base.yml 'load_full_state_path=" + path("run") +
                 "' run_name=x base_output_directory='" + written + "'",
             "load_full_state_path=" + path("run")}};
  }

  void damage(const fs::path& file) const {
    std::string bytes = testing::read_file(file);
    bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);
    testing::write_file(file, bytes);
  }

 private:
  int written_ = 0;
};

TEST_F(DamagedInput, TheCheckpointThatIsReadIsNamedAndAnIncompleteOneIsNoted) {
  for (const auto& [command, key] : commands()) {
    ASSERT_EQ(run(command), 0) << command << err();
    EXPECT_THAT(err(), HasSubstr("reading " + checkpoint(3).string() + "\n")) << command;
    EXPECT_THAT(err(), Not(HasSubstr("incomplete")));
  }
  fs::remove(checkpoint(3) / "COMMITTED");
  for (const auto& [command, key] : commands()) {
    ASSERT_EQ(run(command), 0) << command << err();
    EXPECT_THAT(err(), HasSubstr("note: " + checkpoint(3).string() +
                                 " is incomplete (COMMITTED is missing), passed over\nreading " +
                                 checkpoint(2).string() + "\n"))
        << command;
  }
  for (const std::string& command : {commands()[0].first, commands()[1].first}) {
    ASSERT_EQ(run(command + " --json -"), 0) << err();
    EXPECT_EQ(nlohmann::json::parse(out()).at("load_parameters_path"), checkpoint(2).string());
  }
  for (const int step : {0, 2}) fs::remove_all(checkpoint(step));
  for (const auto& [command, key] : commands()) {
    expect_error(command, "without a complete checkpoint: of step 3, COMMITTED is missing");
  }
}

TEST_F(DamagedInput, ADamagedCheckpointIsWrongInputWithTheWayAroundIt) {
  const fs::path file = checkpoint(3) / "items" / "weights-00000-of-00001.safetensors";
  const std::string way = "; delete " + checkpoint(3).string() + " to take the checkpoint before it, of step 2\n";
  const auto expect_refused = [&](const std::string& reason) {
    for (const auto& [command, key] : commands()) {
      expect_error(command, key + ": ");
      EXPECT_THAT(err(), HasSubstr("checkpoints/3/items/" + file.filename().string() + ": " + reason)) << command;
      EXPECT_THAT(err(), HasSubstr(way)) << command;
    }
  };
  damage(file);
  expect_refused("corrupt: its checksum is ");
  fs::resize_file(file, fs::file_size(file) - 1);
  expect_refused("has ");
  fs::remove(file);
  expect_refused("missing");
  for (const int step : {0, 2}) fs::remove_all(checkpoint(step));
  expect_error(commands()[0].first, "missing");
  EXPECT_THAT(err(), Not(HasSubstr("; delete"))) << "there is none before it";
}

TEST_F(DamagedInput, HuggingFaceFilesToConvertAreInputToo) {
  const fs::path copy = testing::copy_model("llama-tied", path(""));
  fs::resize_file(copy / "model.safetensors", 1000);
  expect_error("convert '" + copy.string() + "' '" + path("out") + "'", "FROM " + copy.string() + ": ");
  fs::rename(copy / "model.safetensors", copy / "model-00001-of-00005.safetensors");
  expect_model_error(copy, {"model.safetensors.index.json", "is missing"});
  fs::remove_all(copy);
  expect_model_error(copy, {"does not exist"});
  EXPECT_EQ(run("convert '" + path("run") + "' /proc/x"), 1);
  EXPECT_THAT(err(), HasSubstr("/proc/x: "));
  EXPECT_THAT(err(), Not(HasSubstr("maxtext-tmp")));
}

TEST_F(DamagedInput, WeightsAloneAreTakenOfTheModelThatIsNamed) {
  const std::string command = commands()[4].first;
  expect_error(command + " base_emb_dim=64", "base_emb_dim=64 (command line): its config.json gives hidden_size 48");
  const std::string named = "model_name=llama2-7b (command line) has vocab_size 32000, its config.json gives 259";
  expect_error(command + " model_name=llama2-7b", named);
  expect_error(commands()[0].first + " model_name=llama2-7b", named);
  EXPECT_THAT(err(), HasSubstr("leave model_name out"));
}

TEST_F(DamagedInput, ATextWithoutATokenToPredictIsWrongInput) {
  const std::string eval = "eval configs/base.yml tokenizer_type=bytes load_parameters_path='" + model() +
                           "' eval_files='" + path("text.txt") + "' base_output_directory='" + path("runs") + "' ";
  ASSERT_EQ(run(eval + "max_target_length=8"), 0) << err();
  EXPECT_FALSE(fs::exists(path("runs"))) << "evaluation only reads";
  expect_error(eval + "max_target_length=1", "max_target_length=1 (command line): eval needs at least 2");
  for (const std::string text : {"", "a"}) {
    write("text.txt", text);
    EXPECT_EQ(run(eval + "max_target_length=8 add_bos=false add_eos=false"), 2) << err();
    EXPECT_THAT(err(), HasSubstr(text.empty() ? "no tokens: " : "no token to predict"));
  }
  expect_error(eval + "per_device_batch_size=0.5", "per_device_batch_size=0.5 (command line): expected a whole number");
}

TEST_F(DamagedInput, NumbersThatAreNoneEndAnEvaluation) {
  const fs::path copy = testing::copy_model("llama-tied", path(""));
  std::vector<testing::OwnedTensor> tensors = testing::read_tensors(copy / "model.safetensors");
  for (testing::OwnedTensor& tensor : tensors) std::ranges::fill(tensor.bytes, std::byte{0xff});
  testing::write_tensors(copy / "model.safetensors", tensors);
  for (const std::string mesh : {"", "ici_context_parallelism=2 "}) {
    EXPECT_EQ(run("eval configs/base.yml tokenizer_type=bytes max_target_length=8 " + mesh + "load_parameters_path='" +
                  copy.string() + "' eval_files='" + path("text.txt") + "'"),
              1);
    EXPECT_THAT(err(), HasSubstr("row 1 of the text: the nll of a token is not finite"));
    EXPECT_THAT(out(), Not(HasSubstr("perplexity")));
  }
  EXPECT_EQ(run("check-logits configs/base.yml tokenizer_type=bytes load_parameters_path='" + copy.string() +
                "' --atol 1 --golden_logits_path '" + model() + "'"),
            1);
  EXPECT_THAT(out(), HasSubstr("nan"));
  EXPECT_THAT(out(), Not(HasSubstr("-nan")));
}

}  // namespace
}  // namespace maxtext
