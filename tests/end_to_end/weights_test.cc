// Weights from Hugging Face directories into training, and trained weights back.
#include <gmock/gmock.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/reader.h"
#include "end_to_end/training_runs.h"
#include "tensor/safetensors.h"
#include "testing/fixtures.h"

namespace maxtext::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// What a Gemma has beside the others.
std::string gemma_keys(const nlohmann::json& config) {
  std::string pattern;
  for (const std::string type : config.at("layer_types")) {
    if (!pattern.empty()) pattern += ",";
    pattern += type == "sliding_attention" ? "local_sliding" : "global";
  }
  std::string keys = fmt::format(
      " mlp_activations=gelu,linear use_post_attn_norm=true use_post_ffw_norm=true attention_layer_pattern={} "
      "sliding_window_size={} query_scale={}",
      pattern, config.at("sliding_window").get<int>(), 1 / std::sqrt(config.at("query_pre_attn_scalar").get<double>()));
  if (config.at("model_type") == "gemma2") {
    return keys + fmt::format(" attn_logits_soft_cap={} final_logits_soft_cap={}",
                              config.at("attn_logit_softcapping").get<double>(),
                              config.at("final_logit_softcapping").get<double>());
  }
  const auto& rope = config.at("rope_parameters");
  return keys + fmt::format(" use_qk_norm=true local_rope_max_timescale={} rope_linear_scaling_factor={}",
                            rope.at("sliding_attention").at("rope_theta").get<double>(),
                            rope.at("full_attention").at("factor").get<double>());
}

/// The mean loss of the golden sequence.
double golden_loss(const fs::path& model) {
  const std::vector<float> logprobs =
      read_as_float(SafetensorsFile(model / "golden.safetensors"), "long.token_logprobs");
  double sum = 0;
  for (const float value : logprobs) sum -= value;
  return sum / static_cast<double>(logprobs.size());
}

/// The keys that describe the model of a config.json in the form of transformers 5.
std::string model_keys(const fs::path& model) {
  const auto config = nlohmann::json::parse(read_file(model / "config.json"));
  std::string family = config.at("model_type");
  if (family == "gemma3_text") family = "gemma3";
  std::string keys = fmt::format("model_name=default decoder_block={}", family == "llama" ? "llama2" : family);
  const std::vector<std::pair<const char*, const char*>> same = {{"vocab_size", "vocab_size"},
                                                                 {"base_emb_dim", "hidden_size"},
                                                                 {"base_num_query_heads", "num_attention_heads"},
                                                                 {"base_num_kv_heads", "num_key_value_heads"},
                                                                 {"head_dim", "head_dim"},
                                                                 {"base_mlp_dim", "intermediate_size"},
                                                                 {"base_num_decoder_layers", "num_hidden_layers"},
                                                                 {"normalization_layer_epsilon", "rms_norm_eps"},
                                                                 {"logits_via_embedding", "tie_word_embeddings"}};
  for (const auto& [key, hf_key] : same) keys += fmt::format(" {}={}", key, config.at(hf_key).dump());
  const auto& rope = config.at("rope_parameters");
  const auto& full_rope = rope.contains("full_attention") ? rope.at("full_attention") : rope;
  keys += fmt::format(" rope_max_timescale={}", full_rope.at("rope_theta").get<int>());
  if (family.starts_with("gemma")) keys += gemma_keys(config);
  if (family == "qwen3") keys += " use_qk_norm=true";
  if (family == "mistral") {
    keys += fmt::format(" attention_type=local_sliding sliding_window_size={}", config.at("sliding_window").get<int>());
  }
  return keys + " ";
}

class Weights : public TrainingRuns {
 protected:
  void convert(const fs::path& from, const fs::path& to) const {
    const ProgramResult result = Program({binary(), "convert", from.string(), to.string()}).wait();
    EXPECT_EQ(result.exit_code, 0) << result.error;
  }

  /// The golden sequence as a file of tokens, one row long; its keys.
  std::string golden_data(const fs::path& model) const {
    const auto ids = read_as_int64(SafetensorsFile(model / "golden.safetensors"), "long.input_ids");
    const std::vector<std::uint16_t> tokens(ids.begin(), ids.end());
    const fs::path file = path(model.filename().string() + ".bin");
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(tokens.data()), static_cast<std::streamsize>(2 * tokens.size()));
    return fmt::format("dataset_type=tokens eval_files=[] global_batch_size=1 train_files={} max_target_length={} ",
                       file.string(), tokens.size());
  }
};

TEST_F(Weights, TheFirstLossIsTransformers) {
  for (const std::string name : {"llama", "mistral", "qwen3", "gemma2", "gemma3"}) {
    const fs::path model = find_fixtures("hf/models/" + name).front();
    const double expected = golden_loss(model);
    const std::string settings = model_keys(model) + golden_data(model) + "steps=1 load_parameters_path=";
    const ProgramResult direct = train(name, settings + model.string());
    EXPECT_NEAR(losses(name).at(0), expected, 1e-5) << name;
    EXPECT_THAT(lines_with(direct.output, "note:"), IsEmpty());

    convert(model, path("converted-" + name));
    train(name + "2", settings + path("converted-" + name).string() + " ici_context_parallelism=2");
    EXPECT_NEAR(losses(name + "2").at(0), expected, 1e-5) << name;
  }
}

TEST_F(Weights, OtherConstantsAreNoted) {
  const fs::path model = find_fixtures("hf/models/llama").front();
  const ProgramResult result =
      train("run", model_keys(model) + golden_data(model) +
                       fmt::format("steps=1 rope_max_timescale=20000 load_parameters_path={}", model.string()));
  EXPECT_THAT(lines_with(result.output, "note: load_parameters_path="), SizeIs(1));
  EXPECT_THAT(result.output, HasSubstr("rope_theta was 10000 and is 20000"));
}

TEST_F(Weights, ARunsOwnCheckpointsGoFirst) {
  const fs::path model = find_fixtures("hf/models/llama").front();
  const std::string settings =
      model_keys(model) + golden_data(model) + fmt::format("load_parameters_path={}", model.string());
  train("parts", settings + " steps=2");
  const ProgramResult resumed = train("parts", settings + " steps=4");
  EXPECT_THAT(lines_with(resumed.output, "resumed from"), SizeIs(1));
  train("whole", settings + " steps=4");
  EXPECT_EQ(numbers(metrics("parts")), numbers(metrics("whole")));
}

TEST_F(Weights, TrainedOnesAreHuggingFacesAfterConversion) {
  train("run", "steps=3 ici_context_parallelism=2");
  convert(path("run"), path("hf"));
  const CheckpointReader trained(checkpoint("run", 3));
  const SafetensorsSet exported(path("hf"));
  ASSERT_EQ(exported.names(), trained.names(kWeights));
  for (const std::string& name : exported.names()) {
    const SafetensorsEntry& entry = exported.at(name);
    std::vector<std::byte> bytes(entry.bytes.size());
    trained.read_range(kWeights, name, 0, entry.spec.elements(), bytes);
    EXPECT_TRUE(std::ranges::equal(bytes, entry.bytes)) << name;
  }
  // As weights to start from they give the loss that the run itself gives when it is evaluated.
  const auto evaluation = [&](const std::string& run, const std::string& overrides) {
    return lines_with(train(run, "steps=4 enable_checkpointing=false eval_interval=100 " + overrides).output,
                      "Completed eval before");
  };
  const auto from_hf = evaluation("from-hf", fmt::format("load_parameters_path={}", path("hf").string()));
  const auto from_run = evaluation("from-run", fmt::format("load_parameters_path={}", path("run").string()));
  ASSERT_THAT(from_hf, SizeIs(1));
  EXPECT_EQ(from_hf, from_run);
}

/// Loads an export with transformers and writes the mean loss of its own ids, given as the second argument.
constexpr const char* kTransformersLoss = R"(
import sys, torch, transformers
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
ids = torch.tensor([[int(i) for i in sys.argv[2].split(',')]])
with torch.no_grad():
    print('loss=%.9f' % model(ids, labels=ids).loss.item())
)";

TEST_F(Weights, TransformersComputesTheSameFromAnExport) {
  if (Program({"python3", "-c", "import torch, transformers"}).wait().exit_code != 0) {
    GTEST_SKIP() << "transformers and torch are not installed; TrainedOnesAreHuggingFacesAfterConversion re-reads";
  }
  train("run", "steps=3");
  convert(path("run"), path("hf"));
  const fs::path file = path("ids.bin");
  std::vector<std::uint16_t> tokens;
  std::string list;
  for (int i = 0; i < 64; ++i) {
    tokens.push_back(static_cast<std::uint16_t>(7 + 31 * i % 200));
    list += fmt::format("{}{}", i == 0 ? "" : ",", tokens.back());
  }
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(tokens.data()), 128);
  train("ours",
        fmt::format(
            "steps=1 dataset_type=tokens eval_files=[] global_batch_size=1 train_files={} load_parameters_path={}",
            file.string(), path("hf").string()));
  const ProgramResult theirs = Program({"python3", "-c", kTransformersLoss, path("hf").string(), list}).wait(120);
  ASSERT_EQ(theirs.exit_code, 0) << theirs.error;
  const double expected = std::stod(theirs.output.substr(theirs.output.find("loss=") + 5));
  EXPECT_NEAR(losses("ours").at(0), expected, 1e-5);
}

}  // namespace
}  // namespace maxtext::testing
