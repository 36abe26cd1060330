// What commands that generate or evaluate read, and what of it they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/decode_fixture.h"
#include "testing/model_copy.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::change_json;
using testing::copy_model;
using ::testing::HasSubstr;

/// The configuration files of a user, prompts, a text, and a model in both forms.
class InputsAndOutputs : public DecodeCommand {
 protected:
  void SetUp() override {
    DecodeCommand::SetUp();
    write("prompts.jsonl", "\"abc\"\n");
    write("text.txt", "a text");
    write("run.yml", "base_config: base.yml\nadd_eos: false\n");
    fs::create_directory(path("models"));
    const fs::path configs = testing::fixture_root().parent_path().parent_path() / "configs";
    fs::copy_file(configs / "base.yml", path("base.yml"));
    fs::copy_file(configs / "models/llama-tiny.yml", path("models/llama-tiny.yml"));
    hugging_face_ = copy_model("llama-tied", path(""));
    change_json(hugging_face_ / "generation_config.json", {{"eos_token_id", 3}});
    ASSERT_EQ(run("convert '" + hugging_face_.string() + "' '" + path("run") + "'"), 0) << err();
  }

  std::string command(const std::string& name, const std::string& rest) const {
    return name + " '" + path("run.yml") + "' tokenizer_type=bytes max_target_length=70 prompt_file='" +
           path("prompts.jsonl") + "' load_parameters_path='" + hugging_face_.string() + "' " + rest;
  }

  /// The command with this output is wrong usage, and the file stays as it is.
  void expect_refusal(const std::string& arguments, const std::string& option, const fs::path& output) {
    const std::string before = testing::read_file(output);
    expect_error(arguments + " " + option + " '" + output.string() + "'", option + " " + output.string() + ": ");
    EXPECT_THAT(err(), HasSubstr("is read by this command, and would be replaced"));
    EXPECT_EQ(testing::read_file(output), before);
  }

  fs::path hugging_face_;
};

TEST_F(InputsAndOutputs, DecodeReplacesNoInputHoweverItIsSpelledOrLinked) {
  fs::create_symlink(path("prompts.jsonl"), path("link"));
  fs::create_hard_link(path("prompts.jsonl"), path("hard"));
  for (const char* name : {"prompts.jsonl", "./models/../prompts.jsonl", "link", "hard", "run.yml", "base.yml",
                           "models/llama-tiny.yml", "llama-tied/config.json", "llama-tied/generation_config.json"}) {
    expect_refusal(command("decode", ""), "--json", path(name));
  }
  int weights = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path("run/checkpoints"))) {
    if (entry.path().extension() != ".safetensors") continue;
    ++weights;
    expect_refusal(command("decode", "load_parameters_path='" + path("run") + "'"), "--json", entry.path());
  }
  EXPECT_GT(weights, 0);
  write("llama-tied/report.json", "old");
  ASSERT_EQ(run(command("decode", "--json '" + path("llama-tied/report.json") + "'")), 0) << err();
  EXPECT_EQ(testing::read_file(path("llama-tied/report.json")).front(), '{') << "beside the inputs it is none";
}

TEST_F(InputsAndOutputs, AReportBesideACheckpointIsReplacedAsOftenAsOneLikes) {
  const fs::path step = fs::directory_iterator(path("run/checkpoints"))->path();
  const std::string of_run = command("decode", "load_parameters_path='" + path("run") + "'");
  for (const fs::path& report : {fs::path(path("run/checkpoints/answers.json")), step / "answers.json"}) {
    for (int time = 0; time < 2; ++time) {
      EXPECT_EQ(run(of_run + " --json '" + report.string() + "'"), 0) << err();
    }
  }
  for (const char* name : {"COMMITTED", "items/manifest.json"}) expect_refusal(of_run, "--json", step / name);
  const std::string of_step = command("decode", "load_parameters_path='" + (step / "items").string() + "'");
  expect_refusal(of_step, "--json", step / "items" / "manifest.json");
}

/// Also the superuser, who runs tests in containers, may not read it without capabilities.
TEST_F(InputsAndOutputs, FoldersThatCannotBeReadAndAreNotToBeReadDoNotMatter) {
  const fs::path closed = path("run/checkpoints/closed");
  fs::create_directory(closed);
  fs::permissions(closed, fs::perms::none);
  const std::string program = (::geteuid() == 0 ? "setpriv --bounding-set=-all '" : "'") + binary() + "' ";
  ASSERT_NE(testing::Program(
                {"sh", "-c", (::geteuid() == 0 ? "setpriv --bounding-set=-all ls '" : "ls '") + closed.string() + "'"})
                .wait()
                .exit_code,
            0);
  for (const std::string& rest : {std::string(), " --json '" + path("report.json") + "'"}) {
    const testing::ProgramResult result =
        testing::Program({"sh", "-c", program + command("decode", "load_parameters_path='" + path("run") + "'") + rest})
            .wait();
    EXPECT_EQ(result.exit_code, 0) << result.error;
  }
  EXPECT_EQ(testing::read_file(path("report.json")).front(), '{');
  fs::permissions(closed, fs::perms::owner_all);
}

TEST_F(InputsAndOutputs, AFailedCommandLeavesNoEmptyFile) {
  write("golden.jsonl", "{}");
  fs::create_symlink(path("target.safetensors"), path("link.safetensors"));
  for (const char* name : {"new.safetensors", "link.safetensors"}) {
    expect_error(command("check-logits", "--atol 1 --golden_logits_path '" + path("golden.jsonl") +
                                             "' --save_logits '" + path(name) + "'"),
                 "golden.jsonl: line 1");
    EXPECT_FALSE(fs::exists(path(name)));
  }
  EXPECT_TRUE(fs::is_symlink(path("link.safetensors")));
  expect_error(command("eval", "eval_files='" + path("none.txt") + "' --json '" + path("new.json") + "'"), "none.txt");
  expect_error("bench attention seq=x --json '" + path("new.json") + "'", "'x' is not an integer");
  EXPECT_FALSE(fs::exists(path("new.json")));
}

TEST_F(InputsAndOutputs, OtherCommandsDoNotEither) {
  const std::string data = " dataset_type=text dataset_path='" + path("text.txt") + "'";
  const fs::path golden = hugging_face_ / "golden.safetensors";
  expect_refusal(command("eval", data), "--json", path("text.txt"));
  expect_refusal(command("eval", "eval_files='" + path("*.txt") + "'"), "--json", path("text.txt"));
  expect_refusal(command("eval", data), "--json", hugging_face_ / "model.safetensors");
  expect_refusal("plan '" + path("run.yml") + "'", "--json", path("base.yml"));
  expect_refusal("plan '" + path("run.yml") + "' tokenizer_type=bytes enable_checkpointing=false --first-batch" + data,
                 "--json", path("text.txt"));
  for (const std::string benchmark : {"step", "decode", "context", "step seq=64"}) {
    expect_refusal("bench " + benchmark + " '" + path("run.yml") + "'", "--json", path("base.yml"));
  }
  for (const fs::path& named : {hugging_face_, golden}) {
    expect_refusal(command("check-logits", "--atol 1 --golden_logits_path '" + named.string() + "'"), "--save_logits",
                   golden);
  }
  write("x.vocab", "some text");
  expect_error("train-tokenizer '" + path("x.vocab") + "' --output '" + path("x") + "'",
               "--output " + path("x.vocab") + ": it is read");
}

TEST_F(DecodeCommand, ModelKeysThatConfigJsonContradictsAreRefused) {
  write("text.txt", "a text");
  const std::string where = "load_parameters_path=" + model() + ": ";
  const std::string rest = " tokenizer_type=bytes load_parameters_path='" + model() + "' ";
  const std::string decode = "decode configs/base.yml prompt=abc max_target_length=70" + rest;
  for (const std::string& command :
       {decode, "eval configs/base.yml max_target_length=8 eval_files='" + path("text.txt") + "'" + rest,
        "check-logits configs/base.yml --atol 1e-4 --golden_logits_path '" + model() + "'" + rest}) {
    expect_error(command + "base_emb_dim=64",
                 where + "base_emb_dim=64 (command line): its config.json gives hidden_size 48");
    EXPECT_EQ(run(command + "base_emb_dim=48 rope_max_timescale=100000"), 0) << command << err();
  }
  for (const std::string key : {"global_parameter_scale=2", "head_dim=16", "logits_via_embedding=false",
                                "rope_max_timescale=500000", "rope_linear_scaling_factor=2", "query_scale=1",
                                "normalization_layer_epsilon=0.1", "decoder_block=mistral", "vocab_size=260"}) {
    expect_error(decode + key, where + key + " (command line): its config.json gives ");
  }
  expect_error(decode + "sliding_window_size=8 attention_type=local_sliding",
               "its config.json gives sliding_window (layer 0) 0");
  // A named model is what its name says.
  expect_error("decode configs/base.yml model_name=llama-tiny" + rest, "leave model_name out");
}

TEST_F(DecodeCommand, KeysOfOtherCommandsAreNotedToHaveNoEffect) {
  write("text.txt", "a text");
  ASSERT_EQ(run(decode("prompt=abc max_target_length=70 num_devices=2 ici_context_parallelism=2 "
                       "ici_data_parallelism=1")),
            0)
      << err();
  EXPECT_THAT(err(), HasSubstr("note: without effect here: num_devices=2, ici_context_parallelism=2\n"));
  ASSERT_EQ(run("eval configs/base.yml tokenizer_type=bytes max_target_length=8 ici_context_parallelism=2 "
                "quantize_kvcache=true per_device_batch_size=0.5 eval_files='" +
                path("text.txt") + "' load_parameters_path='" + model() + "'"),
            0)
      << err();
  EXPECT_THAT(err(), HasSubstr("note: without effect here: quantize_kvcache=true\n"));
  ASSERT_EQ(run("plan configs/base.yml model_name=llama-tiny decode_sampling_top_k=4"), 0) << err();
  EXPECT_EQ(err(), "") << "one run file may serve several commands";
}

/// The bytes tokenizer has 258 tokens, the last two special.
TEST_F(DecodeCommand, EvalRefusesOnlyATextWithATokenThatTheModelHasNoRowFor) {
  const fs::path copy = copy_model("llama-tied", path(""));
  std::vector<testing::OwnedTensor> tensors = testing::read_tensors(copy / "model.safetensors");
  testing::OwnedTensor& embedding =
      *std::ranges::find(tensors, "model.embed_tokens.weight", &testing::OwnedTensor::name);
  embedding.bytes.resize(embedding.bytes.size() / 259 * 256);
  embedding.spec.shape = {256, 48};
  testing::write_tensors(copy / "model.safetensors", tensors);
  change_json(copy / "config.json", {{"vocab_size", 256}});
  write("text.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  const std::string eval = "eval configs/base.yml tokenizer_type=bytes max_target_length=8 load_parameters_path='" +
                           copy.string() + "' dataset_cache_directory='" + path("cache") +
                           "' add_bos=false eval_files='" + path("text.jsonl") + "' ";
  for (int time = 0; time < 2; ++time) {
    ASSERT_EQ(run(eval + "add_eos=false"), 0) << err();
    EXPECT_THAT(err(), HasSubstr("maxtext: note: the tokenizer has ids up to 257, the model only vocab_size=256"));
    EXPECT_EQ(run(eval + "add_eos=true"), 2) << "whether the tokens were kept or not";
    EXPECT_THAT(err(),
                HasSubstr("error: " + path("text.jsonl") +
                          ": document 1: the tokenizer gives the id 257 ('<eos>'), the model has vocab_size=256"));
  }
}

TEST_F(DecodeCommand, EvalReadsTheTextThatIsNamedWithTheModelsOwnTokenizer) {
  write("text.txt", "a text");
  const std::string eval = "eval configs/base.yml max_target_length=8 load_parameters_path='";
  const std::string bytes = eval + model() + "' tokenizer_type=bytes --json - ";
  const std::string held_out = "eval_files='" + path("text.txt") + "'";
  ASSERT_EQ(run(bytes + held_out), 0) << err();
  const Json report = Json::parse(out());
  ASSERT_EQ(run(bytes + "dataset_path='" + path("text.txt") + "'"), 0) << err();
  EXPECT_EQ(Json::parse(out()).at("mean_nll"), report.at("mean_nll"));
  expect_error(bytes, "there is no text to evaluate: set eval_files or dataset_path");
  expect_error(eval + model() + "' " + held_out, model() + " has no tokenizer.json");
  const fs::path copy = copy_model("llama-tied", path(""));
  Json vocab;
  for (int i = 0; i < 26; ++i) vocab[std::string(1, static_cast<char>('a' + i))] = i;
  const Json tokenizer = {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}};
  write("llama-tied/tokenizer.json", tokenizer.dump());
  write("text.txt", "atext");
  ASSERT_EQ(run(eval + copy.string() + "' add_bos=false add_eos=false --json - " + held_out), 0) << err();
  EXPECT_EQ(Json::parse(out()).at("tokens"), 4);
  // Of two tokenizers that are there it is the tokenizer.json, unless the type is given.
  write("llama-tied/tokenizer.model", "junk");
  const std::string both = eval + copy.string() + "' add_bos=false add_eos=false " + held_out;
  EXPECT_EQ(run(both), 0) << err();
  EXPECT_EQ(run(both + " tokenizer_type=huggingface"), 0) << err();
  expect_error(both + " tokenizer_type=sentencepiece",
               "load_parameters_path=" + copy.string() + ": tokenizer.model: not a sentencepiece model");
}

TEST_F(DecodeCommand, FilesOfAModelThatAreNoObjectsOfJsonAreNamed) {
  write("text.txt", "a text");
  for (const std::string name : {"config.json", "generation_config.json"}) {
    for (const auto& [text, expected] :
         std::vector<std::pair<std::string, std::string>>{{"[1]", "expected a JSON object, found array"},
                                                          {"\"x\"", "expected a JSON object, found string"},
                                                          {"3", "expected a JSON object, found number"},
                                                          {"{\"a\": 1,}", "not valid JSON at byte 9"}}) {
      const fs::path copy = copy_model("llama-tied", path(""));
      write("llama-tied/" + name, text);
      expect_model_error(copy, {copy.string() + ": " + name + ": " + expected});
    }
    const fs::path copy = copy_model("llama-tied", path(""));
    fs::remove(copy / name);
    fs::create_directory(copy / name);
    expect_model_error(copy, {copy.string() + ": " + name + ": expected a file, found a folder"});
    fs::remove(copy / name);
  }
  const fs::path sharded = copy_model("qwen2", path(""));
  const fs::path index = sharded / "model.safetensors.index.json";
  testing::write_file(index, "[1]");
  expect_model_error(sharded, {": model.safetensors.index.json: expected a JSON object, found array"});
  fs::remove(index);
  fs::create_directory(index);
  expect_model_error(sharded, {": model.safetensors.index.json: expected a file, found a folder"});
}

}  // namespace
}  // namespace maxtext
