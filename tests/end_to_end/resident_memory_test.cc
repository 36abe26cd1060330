// `maxtext plan` tells how much memory `maxtext train` takes.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "end_to_end/training_runs.h"

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

}  // namespace
}  // namespace maxtext::testing
