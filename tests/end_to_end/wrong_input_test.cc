// What is wrong with a command is said in one line before data is read; what is wrong with data, when it is met.
#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "end_to_end/training_runs.h"
#include "testing/fixtures.h"

namespace maxtext::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class WrongInput : public TrainingRuns {
 protected:
  void expect_config_error(const std::string& overrides, const std::vector<std::string>& parts) const {
    const ProgramResult result = run("wrong", overrides);
    EXPECT_EQ(result.exit_code, 2) << overrides << '\n' << result.error;
    expect_one_line(result, parts);
    EXPECT_LT(result.seconds, 0.5) << overrides;
    EXPECT_FALSE(fs::exists(path("wrong"))) << overrides;
    EXPECT_FALSE(fs::exists(path("dataset_cache"))) << "text was tokenised first: " << overrides;
  }

  /// A command other than train: wrong usage, said in one line at once.
  void expect_usage_error(const std::vector<std::string>& arguments, const std::vector<std::string>& parts) const {
    std::vector<std::string> words = {binary()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const ProgramResult result = Program(words).wait();
    EXPECT_EQ(result.exit_code, 2) << result.error;
    expect_one_line(result, parts);
    EXPECT_THAT(result.output, IsEmpty());
    EXPECT_LT(result.seconds, 0.5) << arguments.front();
  }

  void expect_failure(const std::string& overrides, const std::vector<std::string>& parts) const {
    const ProgramResult result = run("failed", overrides);
    EXPECT_EQ(result.exit_code, 1) << overrides << '\n' << result.error;
    expect_one_line(result, parts);
  }

  static void expect_one_line(const ProgramResult& result, const std::vector<std::string>& parts) {
    const auto lines = lines_with(result.error, "maxtext: error: ");
    ASSERT_THAT(lines, SizeIs(1)) << result.error;
    for (const std::string& line : lines_of(result.error)) {
      EXPECT_TRUE(line == lines[0] || line.find("[info] tokenized") != std::string::npos) << line;
    }
    EXPECT_LT(lines[0].size(), 400U);
    for (const std::string& part : parts) EXPECT_THAT(lines[0], HasSubstr(part));
  }

  /// A copy of a fixture's model that may be damaged.
  fs::path copy_of(const std::string& model) const {
    const fs::path target = path("copy-" + model);
    fs::remove_all(target);
    fs::copy(find_fixtures("hf/models/" + model).front(), target);
    return target;
  }
};

/// The dimensions of fixtures/hf/models/llama.
const std::string kLlama =
    "model_name=default decoder_block=llama2 vocab_size=320 base_emb_dim=64 base_num_query_heads=4 base_num_kv_heads=2 "
    "head_dim=16 base_mlp_dim=112 base_num_decoder_layers=3 normalization_layer_epsilon=1e-5 "
    "enable_checkpointing=false steps=2 ";

TEST_F(WrongInput, ConfigurationIsCheckedFirst) {
  expect_config_error("stpes=3", {"stpes", "steps"});
  expect_config_error("model_name=lama2-7b", {"lama2-7b", "llama2-7b"});
  expect_config_error("dtype=float33", {"dtype=float33", "float32"});
  expect_config_error("context_parallel_strategy=ring", {"context_parallel_strategy=ring", "all_gather"});
  expect_config_error("context_parallel_strategy=rong", {"context_parallel_strategy=rong"});
  expect_config_error("num_devices=3 ici_context_parallelism=2", {"3", "2"});
  expect_config_error("ici_fsdp_parallelism=-1 ici_context_parallelism=-1", {"ici_fsdp_parallelism", "-1"});
  expect_config_error("steps=ten", {"steps=ten", "integer"});
  expect_config_error("learning_rate=fast", {"learning_rate=fast"});
  expect_config_error("packing=maybe", {"packing=maybe"});
  expect_config_error("max_target_length=0", {"max_target_length=0"});
  expect_config_error("global_batch_size=-3", {"global_batch_size=-3"});
  expect_config_error("per_device_batch_size=0.3 global_batch_size=0 ici_context_parallelism=2",
                      {"per_device_batch_size"});
  expect_config_error("train_files=" + path("missing.txt").string(), {"train_files", "missing.txt"});
  expect_config_error("load_parameters_path=" + path("missing").string(), {"load_parameters_path", "missing"});
  expect_config_error("tokenizer_type=sentencepiece tokenizer_path=" + path("missing.model").string(),
                      {"tokenizer_path", "missing.model"});
  expect_config_error("ici_tensor_parallelism=3", {"ici_tensor_parallelism=3", "KV heads"});
  expect_config_error("eval_interval=2 eval_files=[]", {"eval_interval", "held-out"});
  expect_config_error("max_target_length=2147483647", {"max_target_length=2147483647", "1 to 16777216"});
  expect_config_error("ici_context_parallelism=1048576", {"1048576 devices", "at most 1024", "ici_*_parallelism"});
  expect_config_error("run_name=a/b", {"run_name=a/b", "name of a folder"});
  expect_config_error("dataset_type=synthetic", {"train_files", "dataset_type=synthetic", "reads no files"});
  expect_config_error("metrics_file=/proc/nowhere/metrics", {"metrics_file=/proc/nowhere/metrics", "written"});
  expect_config_error("metrics_file=" + path("").string(), {"metrics_file=" + path("").string(), "directory"});
  expect_config_error(
      "ici_context_parallelism=65536 ici_fsdp_parallelism=65536 ici_data_parallelism=65536 "
      "ici_tensor_parallelism=65536",
      {"ici_data_parallelism=65536", "at most 1048576 devices"});
  expect_config_error("collective_timeout_seconds=1e30", {"collective_timeout_seconds=1e30", "0.001 to 100000000"});
}

TEST_F(WrongInput, HeldOutDataAreLookedForBeforeTextIsTokenised) {
  fs::create_directory(path("pictures"));
  write_file(path("pictures") / "a.png", "no text");
  const std::string folder = path("pictures").string();
  expect_config_error("eval_interval=2 eval_files=" + folder, {"eval_files", "no files to read in folder " + folder});
  const std::vector<std::uint16_t> ids(1000, 5);
  std::ofstream(path("tokens.bin"), std::ios::binary)
      .write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(2 * ids.size()));
  expect_config_error("dataset_type=tokens document_separator_id=5 train_files=" + path("tokens.bin").string() +
                          " eval_interval=2 eval_files=" + path("eval.jsonl").string(),
                      {"eval_files", path("eval.jsonl").string(), "expected a .npy or .bin file"});
}

TEST_F(WrongInput, OtherCommandsAreCheckedAsQuickly) {
  const std::string model = find_fixtures("hf/models/llama").front().string();
  expect_usage_error({"plan", "configs/base.yml", "stpes=3"}, {"stpes", "steps"});
  expect_usage_error({"plan", "configs/base.yml", "num_devices=3", "ici_context_parallelism=2"}, {"3", "2"});
  expect_usage_error({"plan", "configs/base.yml", "--json", path("none/plan.json").string()}, {"--json", "plan.json"});
  expect_usage_error({"plan", "configs/base.yml", "--first-batch", "dataset_type=text", "tokenizer_type=bytes",
                      "enable_checkpointing=false", "train_files=" + path("none.txt").string()},
                     {"train_files", "none.txt"});
  expect_usage_error({"plan", "--fist-batch", "configs/base.yml"}, {"--fist-batch"});
  expect_usage_error({"plan", "configs/base.yml", "global_batch_size=1000000000"}, {"1000000000 rows"});
  expect_usage_error({"plan", "configs/base.yml", "ici_context_parallelism=1048576", "global_batch_size=1"},
                     {"1048576 devices", "at most"});
  expect_usage_error({"plan", "configs"}, {"'configs' is a folder"});
  expect_usage_error({"plan", "src/MaxText/configs/base.yml"}, {"did you mean configs/base.yml?"});
  expect_usage_error({"convert", path("none").string(), path("out").string()}, {"FROM", "none", "does not exist"});
  expect_usage_error({"convert", model, path("out").string(), "--dtype", "int4"}, {"--dtype", "int4"});
  expect_usage_error({"convert", model, path("").string(), "--to", "huggingface"}, {"TO", "exists already"});
  expect_usage_error({"bench", "atention"}, {"atention", "attention"});
  expect_usage_error({"bench", "attention", "seq=many"}, {"many", "integer"});
  expect_usage_error({"bench", "step", "stpes=3"}, {"stpes"});
  expect_usage_error({"bench", "gemm", "--json", path("none/bench.json").string()}, {"--json", "bench.json"});
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(WrongInput, ACheckpointWithoutMoments) {
  const std::string model = find_fixtures("hf/models/llama").front().string();
  ASSERT_EQ(Program({binary(), "convert", model, path("imported").string()}).wait().exit_code, 0);
  expect_failure(kLlama + "load_full_state_path=" + (path("imported") / "checkpoints" / "0").string(),
                 {path("imported").string(), "it has no first_moment, from which opt_type=adamw goes on",
                  "load_parameters_path="});
  train("weights", kLlama + "load_parameters_path=" + path("imported").string());
}

TEST_F(WrongInput, TextThatIsNotUtf8) {
  std::ofstream(path("latin.txt"), std::ios::binary) << "good line\nbad \xff line\n";
  expect_failure("steps=2 train_files=" + path("latin.txt").string(), {"latin.txt", "14"});
}

TEST_F(WrongInput, ATokenIdBeyondTheVocabulary) {
  std::vector<std::uint16_t> ids(1000, 5);
  ids[777] = 512;
  std::ofstream(path("tokens.bin"), std::ios::binary)
      .write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(2 * ids.size()));
  expect_failure("steps=2 dataset_type=tokens eval_files=[] train_files=" + path("tokens.bin").string(),
                 {"tokens.bin", "777", "512"});
}

TEST_F(WrongInput, WhatWasTrainedBeforeBadDataIsSaved) {
  write_bad_tokens(path("tokens.bin"));
  const std::string settings =
      "steps=100 dataset_type=tokens enable_data_shuffling=false num_epoch=1 eval_files=[] ici_context_parallelism=2 "
      "train_files=" +
      path("tokens.bin").string();
  expect_failure(settings, {"tokens.bin: token 512 at index 1000", "stopped after 7 steps, which are saved"});
  EXPECT_THAT(steps("failed"), SizeIs(7));
  EXPECT_TRUE(is_complete_checkpoint(checkpoint("failed", 7)));
  // The first batch of the resumed run is the bad one.
  expect_failure(settings, {"tokens.bin: token 512 at index 1000"});
  const ProgramResult unsaved = run("unsaved", settings + " enable_checkpointing=false");
  expect_one_line(unsaved, {"not saved, as enable_checkpointing=false"});
}

TEST_F(WrongInput, PathsThatHoldSomethingElse) {
  const std::string model = find_fixtures("hf/models/llama").front().string();
  fs::create_directories(path("empty"));
  expect_config_error("load_parameters_path=" + path("empty").string(), {"load_parameters_path", "no weights"});
  expect_config_error("load_full_state_path=" + model, {"load_full_state_path", "no checkpoint"});
  fs::create_directories(path("begun") / "checkpoints");
  expect_config_error("load_full_state_path=" + path("begun").string(),
                      {"load_full_state_path", "without a complete checkpoint"});
  const fs::path truncated = copy_of("llama");
  write_file(truncated / "config.json", read_file(truncated / "config.json").substr(0, 50));
  expect_config_error("load_parameters_path=" + truncated.string(), {"config.json", "not valid JSON at byte 51"});
  write_file(truncated / "config.json", "[1]");
  expect_config_error("load_parameters_path=" + truncated.string(), {"config.json: expected a JSON object"});
  fs::remove(truncated / "config.json");
  fs::create_directory(truncated / "config.json");
  expect_config_error("load_parameters_path=" + truncated.string(), {"config.json: expected a file, found a folder"});
  const fs::path sharded = copy_of("qwen2");
  write_file(sharded / "model.safetensors.index.json", "\"text\"");
  expect_config_error("load_parameters_path=" + sharded.string(), {"index.json: expected a JSON object"});
  ASSERT_EQ(Program({binary(), "convert", model, path("imported").string()}).wait().exit_code, 0);
  const std::string checkpoints = (path("imported") / "checkpoints").string();
  expect_config_error("load_parameters_path=" + checkpoints, {"load_parameters_path", "folder of checkpoints"});
  expect_usage_error({"convert", checkpoints, path("out").string()}, {checkpoints, "folder of checkpoints"});
  expect_usage_error({"convert", path("begun").string(), path("out").string()}, {"without a complete checkpoint"});
  expect_usage_error({"convert", path("imported").string(), path("out").string(), "--max-shard-bytes", "5GB"},
                     {"--max-shard-bytes 5GB: expected a number of bytes"});
  train("run", "steps=2");
  const ProgramResult branch = train("branch", "steps=3 load_full_state_path=" + path("run").string());
  EXPECT_THAT(lines_with(branch.output, "after 2 steps"), SizeIs(1)) << "the newest checkpoint of a run directory";
}

TEST_F(WrongInput, WeightsOfAnotherModel) {
  const std::string llama = find_fixtures("hf/models/llama").front().string();
  // The config.json beside the weights tells before they are read.
  expect_config_error("load_parameters_path=" + llama, {"load_parameters_path", "vocab_size 320", "512"});
  // Without it the tensors do.
  const fs::path alone = copy_of("llama");
  fs::remove(alone / "config.json");
  const std::string path = "load_parameters_path=" + alone.string();
  expect_config_error(kLlama + "base_mlp_dim=128 " + path, {path + ": tensor", "mlp", "112", "128"});
  expect_config_error(kLlama + "base_num_decoder_layers=2 " + path, {path + ": tensor", "model.layers.2."});
  expect_config_error(kLlama + "base_num_decoder_layers=4 " + path, {path + ": there is no tensor", "model.layers.3."});
  // A run that has begun goes on from its own checkpoint, whatever lies there by now.
  train("run", kLlama + "enable_checkpointing=true " + path);
  fs::copy(find_fixtures("hf/models/llama-tied/model.safetensors").front(), alone / "model.safetensors",
           fs::copy_options::overwrite_existing);
  EXPECT_EQ(run("other", kLlama + path).exit_code, 2);
  train("run", kLlama + "enable_checkpointing=true steps=3 " + path);
}

TEST_F(WrongInput, DamagedWeights) {
  const fs::path copy = copy_of("llama");
  const std::string whole = read_file(copy / "model.safetensors");
  const std::string settings = kLlama + "load_parameters_path=" + copy.string();
  write_file(copy / "model.safetensors", whole.substr(0, whole.size() - 100));
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, whole.data(), sizeof header_bytes);
  const std::size_t data_bytes = whole.size() - 8 - header_bytes;
  const auto header = nlohmann::json::parse(whole.substr(8, header_bytes));
  std::string last;  // the tensor that the cut takes from: the one whose bytes end last
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__" && entry.at("data_offsets").at(1) == data_bytes) last = name;
  }
  ASSERT_FALSE(last.empty());
  expect_failure(settings, {"model.safetensors", "tensor '" + last + "'", "end at " + std::to_string(data_bytes),
                            "only " + std::to_string(data_bytes - 100)});
  write_file(copy / "model.safetensors", whole.substr(0, 100));
  expect_failure(settings, {"model.safetensors", "header takes " + std::to_string(header_bytes), "only 92 follow"});
  write_file(copy / "model.safetensors", "");
  expect_failure(settings, {"model.safetensors", "at least 8 bytes", "has 0"});
  std::string broken = whole;
  broken[20] = '\x01';
  write_file(copy / "model.safetensors", broken);
  expect_failure(settings, {"model.safetensors", "header is not valid JSON at byte 13"});
}

TEST_F(WrongInput, WeightsWhoseHeaderDoesNotFitThem) {
  const fs::path copy = copy_of("llama");
  const std::string whole = read_file(copy / "model.safetensors");
  const std::string settings = kLlama + "load_parameters_path=" + copy.string();
  const std::string tensor = "model.norm.weight";  // float32 [64]
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, whole.data(), sizeof header_bytes);
  const auto header = nlohmann::json::parse(whole.substr(8, header_bytes));
  const auto with = [&](const char* member, const nlohmann::json& value) {
    nlohmann::json changed = header;
    changed[tensor][member] = value;
    const std::string text = changed.dump();
    const std::uint64_t length = text.size();
    write_file(copy / "model.safetensors",
               std::string(reinterpret_cast<const char*>(&length), 8) + text + whole.substr(8 + header_bytes));
  };
  with("shape", {65});
  expect_failure(settings, {"model.safetensors", "tensor '" + tensor + "'", "65", "takes 260 bytes", "span 256"});
  with("shape", {8, 8});
  expect_config_error(settings, {tensor, "[8, 8]", "[64]"});
  with("dtype", "F13");
  expect_failure(settings, {"model.safetensors", "tensor '" + tensor + "'", "F13", "F32"});
}

TEST_F(WrongInput, NotANumberInTheWeights) {
  const fs::path copy = copy_of("llama");
  std::string weights = read_file(copy / "model.safetensors");
  const std::string name = "\"model.layers.1.mlp.up_proj.weight\"";
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, weights.data(), sizeof header_bytes);
  const auto header = nlohmann::json::parse(weights.substr(8, header_bytes));
  const std::size_t begin = header.at("model.layers.1.mlp.up_proj.weight").at("data_offsets").at(0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(weights.data() + 8 + header_bytes + begin, &nan, sizeof nan);
  write_file(copy / "model.safetensors", weights);
  expect_failure(kLlama + "load_parameters_path=" + copy.string(),
                 {"loss is nan at step 0", "not finite: gradient of"});

  // Asked to go on, it does, and changes nothing: each step has the loss of data that the same weights give.
  const ProgramResult result =
      run("on", kLlama + "steps=3 abort_on_nan_loss=false load_parameters_path=" + copy.string());
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(lines_with(result.output, "loss: nan"), SizeIs(3));
}

TEST_F(WrongInput, StepsThatAreNotFiniteChangeNothing) {
  // The first steps with such a rate blow up; from then on nothing is updated.
  const std::string settings =
      "learning_rate=1e30 abort_on_nan_loss=false abort_on_inf_loss=false "
      "ici_context_parallelism=2 checkpoint_period=1 ";
  train("run", settings + "steps=8");
  const auto lines = metrics("run");
  std::size_t first = 0;
  while (first < lines.size() && !lines[first].at("grad_norm").is_null()) ++first;
  ASSERT_LT(first, 7U) << "the rate was too small to blow up";
  for (std::size_t step = first + 1; step < 8; ++step) {
    EXPECT_TRUE(
        same_weights(checkpoint("run", static_cast<int>(step) + 1), checkpoint("run", static_cast<int>(first))));
  }
  const ProgramResult aborted = run("aborted", "learning_rate=1e30 steps=8 ici_context_parallelism=2");
  EXPECT_EQ(aborted.exit_code, 1);
  expect_one_line(aborted, {"at step " + std::to_string(first), "first tensor that is not finite: gradient of"});
}

TEST_F(WrongInput, ADamagedCheckpointIsNamed) {
  train("run", "steps=2 ici_context_parallelism=2");
  const fs::path file = checkpoint("run", 2) / "items" / "weights-00001-of-00002.safetensors";
  ASSERT_TRUE(fs::exists(file));
  std::string bytes = read_file(file);
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);
  write_file(file, bytes);
  const ProgramResult corrupt = run("run", "steps=3");
  EXPECT_EQ(corrupt.exit_code, 1);
  expect_one_line(corrupt, {file.string(), "; delete " + checkpoint("run", 2).string() + " to begin again"});
  write_file(file, bytes.substr(0, bytes.size() / 2));
  const ProgramResult truncated = run("run", "steps=3");
  EXPECT_EQ(truncated.exit_code, 1);
  expect_one_line(truncated, {file.string(), std::to_string(bytes.size()), std::to_string(bytes.size() / 2)});
  fs::remove(file);
  const ProgramResult missing = run("run", "steps=3");
  EXPECT_EQ(missing.exit_code, 1);
  expect_one_line(missing, {file.filename().string()});
  fs::copy(checkpoint("run", 2), checkpoint("run", 1), fs::copy_options::recursive);
  const ProgramResult two = run("run", "steps=3");
  expect_one_line(two, {"to resume from the checkpoint before it, of step 1"});
}

TEST_F(WrongInput, ADiskThatTakesNoMoreEndsNoRun) {
  // A limit on the size of files stands for a full disk: metrics fit, checkpoints do not.
  const std::vector<std::string> words = command("full", "steps=9 checkpoint_period=3 ici_context_parallelism=2");
  std::string line = "trap '' XFSZ; ulimit -f 40; exec";
  for (const std::string& word : words) line += " '" + word + "'";
  const ProgramResult result = Program({"bash", "-c", line}).wait();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(lines_with(result.output, "failed, training goes on"), SizeIs(4)) << result.output;
  EXPECT_THAT(steps("full"), SizeIs(9));
  expect_one_line(result, {"the last checkpoint, of step 9, could not be saved"});
  EXPECT_THAT(fs::exists(path("full") / "checkpoints")
                  ? std::distance(fs::directory_iterator(path("full") / "checkpoints"), {})
                  : 0,
              0)
      << "leftovers";
}

}  // namespace
}  // namespace maxtext::testing
