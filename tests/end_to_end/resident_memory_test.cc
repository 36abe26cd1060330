// `maxtext plan` tells how much memory `maxtext train` takes; `maxtext decode` takes little more than its weights.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/splitmix64.h"
#include "end_to_end/training_runs.h"
#include "model/hf_config.h"
#include "model/layout.h"
#include "testing/fixtures.h"
#include "testing/model_copy.h"

namespace maxtext::testing {
namespace {

constexpr double kGibibyte = 1073741824.0;

/// Sanitizers keep books on memory, and freed memory, for themselves.
bool instrumented() {
  return dlsym(RTLD_DEFAULT, "__asan_init") != nullptr || dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr;
}

class ResidentMemory : public TrainingRuns {
 protected:
  void SetUp() override {
    TrainingRuns::SetUp();
    if (instrumented()) GTEST_SKIP() << "the build's sanitizer takes memory of its own";
  }

  /// 79 M parameters with moments and gradients, and short rows: a step is quick.
  std::vector<std::string> command(const std::string& verb, const std::string& overrides) const {
    std::vector<std::string> words = {binary(), verb, "configs/base.yml", "run_name=memory",
                                      "base_output_directory=" + path("").string()};
    std::istringstream stream(
        "dataset_type=synthetic enable_checkpointing=false base_emb_dim=1024 base_num_query_heads=16 "
        "base_num_kv_heads=4 head_dim=64 base_mlp_dim=4096 base_num_decoder_layers=3 vocab_size=16384 "
        "max_target_length=256 remat_policy=none " +
        overrides);
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
  }

  /// The last entry of the plan: all devices in one process.
  nlohmann::json planned(const std::string& overrides) const {
    std::vector<std::string> words = command("plan", overrides);
    words.insert(words.end(), {"--json", path("plan.json").string()});
    const ProgramResult result = Program(words).wait();
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return nlohmann::json::parse(std::ifstream(path("plan.json"))).at("processes").back();
  }

  double measured(const std::string& overrides) const {
    const std::string file = metrics_path("memory").string();
    const ProgramResult result = Program(command("train", "steps=1 metrics_file=" + file + " " + overrides)).wait();
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return metrics("memory").back().at("peak_memory_bytes").get<double>();
  }
};

TEST_F(ResidentMemory, IsPredictedWithin15Percent) {
  for (const char* overrides : {"global_batch_size=2", "global_batch_size=2 ici_fsdp_parallelism=2"}) {
    const nlohmann::json process = planned(overrides);
    const double expected = process.at("resident_bytes_per_process").get<double>();
    const double actual = measured(overrides);
    EXPECT_GT(actual, kGibibyte) << overrides;
    EXPECT_LT(actual, 2 * kGibibyte) << overrides;
    EXPECT_NEAR(expected / actual, 1, 0.15) << overrides;
    EXPECT_GT(process.at("scratch_bytes_per_device").get<double>(), 0) << overrides;
    std::filesystem::remove(metrics_path("memory"));
  }
}

/// Random numbers of about 0.01 as bfloat16: a sign, the exponent of 2^-7, a fraction.
std::vector<std::byte> random_bfloat16(std::int64_t count, std::uint64_t seed) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::uint16_t>((splitmix64(seed + i) & 0x807fU) | 0x3c00U);
  }
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

class DecodingMemory : public ResidentMemory {
 protected:
  struct Figures {
    double weights = 0;
    double peak = 0;
  };

  /// 76 M parameters in bfloat16, nearly all of them in layers, which every token reads. On the disk, since memory for
  /// files may be scarce.
  std::filesystem::path write_model() const {
    const std::filesystem::path& directory = model_folder_.path();
    change_json(directory / "config.json", {{"model_type", "llama"},
                                            {"torch_dtype", "bfloat16"},
                                            {"vocab_size", 259},
                                            {"hidden_size", 1024},
                                            {"intermediate_size", 4096},
                                            {"num_hidden_layers", 5},
                                            {"num_attention_heads", 16},
                                            {"num_key_value_heads", 4}});
    std::vector<OwnedTensor> tensors;
    for (const ParameterGroup& group : model_layout(read_hf_config(directory)).groups) {
      for (const ParameterInfo& parameter : group.parameters) {
        const TensorSpec spec{parameter.shape, DType::bfloat16};
        tensors.push_back({parameter.name, spec, random_bfloat16(spec.elements(), tensors.size() << 40U)});
      }
    }
    write_tensors(directory / "model.safetensors", tensors);
    return directory;
  }

  Figures decode(const std::filesystem::path& model) const {
    const std::string report = path("decode.json").string();
    const ProgramResult result =
        Program({binary(), "decode", "configs/base.yml", "load_parameters_path=" + model.string(),
                 "tokenizer_type=bytes", "prompt=a prompt of more than a few rows of numbers", "ignore_eos=true",
                 "max_target_length=65", "--json", report})
            .wait();
    EXPECT_EQ(result.exit_code, 0) << result.error;
    const nlohmann::json memory = nlohmann::json::parse(std::ifstream(report)).at("memory");
    return {memory.at("weight_bytes").get<double>(), memory.at("peak_resident_bytes").get<double>()};
  }

 private:
  TemporaryDirectory model_folder_;
};

/// Neither loading nor computing makes a copy of the weights. Measured: 153 MB of weights, 24 MB for the small model, a
/// peak of 187 MB.
TEST_F(DecodingMemory, IsAtMostATenthMoreThanTheWeightsBesideWhatTheProgramTakes) {
  const Figures small = decode(fixture_root() / "hf" / "models" / "llama-tied");
  EXPECT_LT(small.weights, 1 << 20);
  const Figures large = decode(write_model());
  EXPECT_GT(large.weights, 140 << 20);
  EXPECT_GT(large.peak, large.weights) << "mapped pages count";
  EXPECT_LT(large.peak, 1.1 * large.weights + small.peak);
}

}  // namespace
}  // namespace maxtext::testing
