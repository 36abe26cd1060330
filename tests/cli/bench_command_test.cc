// `maxtext bench` at tiny sizes: every benchmark runs, and its figures are complete and possible numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "testing/fixtures.h"
#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

/// A busy machine drops pairs; here only the machinery is tested, so all are kept.
constexpr const char* kQuick = " pairs=2 tolerance=1000";

class BenchCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* binary = std::getenv("MAXTEXT_BINARY");
    if (binary == nullptr) FAIL() << "MAXTEXT_BINARY does not name the program (ctest sets it)";
    binary_ = binary;
  }

  /// The exit code; output and error messages go to output().
  int bench(const std::string& arguments) const {
    const std::string command = "'" + binary_ + "' bench " + arguments + " > '" + path("output") + "' 2>&1 < /dev/null";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  /// The JSON of a run that has to succeed and whose figures have to be sound.
  Json figures(const std::string& arguments) const {
    EXPECT_EQ(bench(arguments + kQuick + " --json '" + path("json") + "'"), 0) << output();
    const Json report = Json::parse(testing::read_file(path("json")), nullptr, false);
    EXPECT_FALSE(report.is_discarded());
    for (const char* field : {"cpu", "cores", "threads", "instruction_set"}) {
      EXPECT_TRUE(report["machine"].contains(field)) << field;
    }
    for (const Json& figure : report["figures"]) check(figure);
    return report["figures"];
  }

  static void check(const Json& figure) {
    const double ratio = figure.at("ratio").get<double>();
    EXPECT_TRUE(std::isfinite(ratio) && ratio > 0) << figure;
    EXPECT_LE(figure.at("lowest").get<double>(), ratio) << figure;
    EXPECT_GE(figure.at("highest").get<double>(), ratio) << figure;
    EXPECT_EQ(figure.at("pairs").get<int>(), 2) << figure;
    EXPECT_GT(figure.at("rate").get<double>(), 0) << figure;
    EXPECT_GT(figure.at("reference_rate").get<double>(), 0) << figure;
    for (const char* field : {"what", "reference", "unit", "configuration", "details", "dropped"}) {
      EXPECT_TRUE(figure.contains(field)) << field << " in " << figure;
    }
  }

  std::string output() const { return testing::read_file(path("output")); }
  std::string path(const std::string& name) const { return (directory_.path() / name).string(); }

 private:
  testing::TemporaryDirectory directory_;
  std::string binary_;
};

TEST_F(BenchCommand, AttentionMeasuresEachLengthAndHeadDimInBothDirections) {
  const Json list = figures("attention seq=64,128 head_dim=16,32 query_heads=4 kv_heads=2 gemm_sizes=64");
  ASSERT_EQ(list.size(), 8U);
  EXPECT_EQ(list[0]["what"], "forward");
  EXPECT_EQ(list[1]["what"], "backward");
  EXPECT_EQ(list[7]["configuration"]["seq"], 128);
  EXPECT_EQ(list[7]["configuration"]["head_dim"], 32);
  for (const Json& figure : list) {
    // FLOPs of one call, by the formula 4 · S²/2 · query_heads · head_dim.
    const double length = figure["configuration"]["seq"].get<double>();
    const double forward = 2 * length * length * 4 * figure["configuration"]["head_dim"].get<double>();
    const double flops = figure["what"] == "forward" ? forward : 2.5 * forward;
    EXPECT_NEAR(figure["rate"].get<double>() * 1e9 * figure["details"]["seconds"].get<double>(), flops, 1e-6 * flops);
  }
}

TEST_F(BenchCommand, AttentionCountsDocumentsAndWindows) {
  const auto flops = [&](const std::string& arguments) {
    const Json figure = figures("attention direction=forward seq=256 head_dim=16 gemm_sizes=64 " + arguments)[0];
    return figure["rate"].get<double>() * 1e9 * figure["details"]["seconds"].get<double>();
  };
  const double whole = flops("");
  EXPECT_NEAR(flops("documents=4"), whole / 4, 1e-6 * whole);
  EXPECT_NEAR(flops("window=256"), whole, 1e-6 * whole);
  // Σ min(i + 1, 32) − 256/2 over 256 queries, against 256²/2.
  EXPECT_NEAR(flops("window=32"), whole * (32 * 256 - 32 * 31 / 2 - 128) / (256 * 256 / 2), 1e-6 * whole);
}

TEST_F(BenchCommand, GemmMeasuresSquaresAndLayers) {
  const Json list = figures("gemm gemm_sizes=64,96 tokens=64 layers=32x48,48x32");
  ASSERT_EQ(list.size(), 2U + 3 * 2);
  EXPECT_EQ(list[0]["configuration"]["size"], 64);
  EXPECT_EQ(list[7]["configuration"]["inputs"], 48);
}

TEST_F(BenchCommand, GemmMeasuresWeightsAsTheyAreStored) {
  const Json list = figures("gemm gemm_sizes=64 tokens=64 layers=32x48 weights=bfloat16,float16");
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[1]["configuration"]["weights"], "bfloat16");
  EXPECT_EQ(list[2]["configuration"]["weights"], "float16");
}

TEST_F(BenchCommand, DecodeWeightsMeasuresEachDtypeAndDepth) {
  const Json list = figures("decode_weights mebibytes=4 read_mebibytes=16 depths=100,512 outputs=1024 rows=3");
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[3]["configuration"]["dtype"], "bfloat16");
  EXPECT_EQ(list[3]["configuration"]["weights"], 4);
  EXPECT_EQ(list[0]["configuration"]["outputs"], 1024);
}

TEST_F(BenchCommand, BandwidthMeasuresEachNumberOfStreams) {
  const Json list = figures("bandwidth mebibytes=16");
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[3]["configuration"]["streams"], 8);
}

TEST_F(BenchCommand, DecodeAttentionMeasuresEachDtypeAndBatch) {
  const Json list = figures(
      "decode_attention dtype=float32,int8 batch=1,3 mebibytes=2 in_cache_kibibytes=64 query_heads=4 kv_heads=2 "
      "head_dim=16 read_mebibytes=16");
  ASSERT_EQ(list.size(), 8U);
  EXPECT_EQ(list[0]["reference"], "best read");
  EXPECT_EQ(list[1]["reference"], "its in-cache speed");
  // 2 MiB of K and V: 2 · 2 heads · 16 · 4 bytes a position, and in int8 for 3 sequences 3 · 2 · 2 · (16 + 4).
  EXPECT_EQ(list[0]["configuration"]["positions"], 8192);
  EXPECT_EQ(list[6]["configuration"]["positions"], (2097152 + 239) / 240);
  EXPECT_EQ(list[6]["configuration"]["dtype"], "int8");
  EXPECT_EQ(list[1]["details"]["in_cache_positions"], 256);
}

TEST_F(BenchCommand, StepTakesConfigurationKeysAndReportsMemory) {
  const std::string model =
      " base_num_decoder_layers=2 base_emb_dim=64 base_num_query_heads=4 base_num_kv_heads=2 head_dim=16 "
      "base_mlp_dim=96 vocab_size=128 gemm_sizes=64";
  const Json list = figures("step seq=64" + model);
  ASSERT_EQ(list.size(), 1U);
  const Json& details = list[0]["details"];
  EXPECT_GT(details["peak_tensors_mib"].get<double>(), 0);
  EXPECT_GT(details["peak_resident_mib"].get<double>(), details["peak_tensors_mib"].get<double>());
  // 6 · parameters in products · S + 3.5 · 4 · S²/2 · heads · head_dim · layers.
  const double weights = 2 * (64 * 64 * 2 + 2 * 64 * 32 + 3 * 64 * 96) + 128 * 64;
  const double flops = 6 * weights * 64 + 3.5 * 4 * 64 * 64 / 2 * 4 * 16 * 2;
  EXPECT_NEAR(list[0]["rate"].get<double>() * 1e9 * details["seconds"].get<double>(), flops, 1e-6 * flops);
  EXPECT_NEAR(details["tokens_per_second"].get<double>() * details["seconds"].get<double>(), 64, 1e-6);
  const Json parallel = figures("step seq=64 ici_context_parallelism=2" + model);
  EXPECT_EQ(parallel[0]["configuration"]["context_parallelism"], 2);
}

TEST_F(BenchCommand, DecodeMeasuresStepsPromptsAndSharing) {
  const Json list = figures(
      "decode base_num_decoder_layers=2 base_emb_dim=64 base_num_query_heads=4 base_num_kv_heads=2 head_dim=16 "
      "base_mlp_dim=96 vocab_size=128 gemm_sizes=64 read_mebibytes=16 dtypes=bfloat16 cache_dtypes=int8 context=100 "
      "prompt=30 shared_context=700 sequences=2 steps=3");
  ASSERT_EQ(list.size(), 3U);
  // Two bytes a weight (embedding tied), two float32 norms a layer and one, and the context's keys, values and scales.
  const double weights = 2.0 * (2 * (64 * 64 * 2 + 2 * 64 * 32 + 3 * 64 * 96) + 128 * 64 + 5 * 64);
  const double context = 2.0 * 100 * 2 * 2 * 2 * (16 + 4);
  EXPECT_NEAR(list[0]["details"]["bytes_per_step_mib"].get<double>() * 1048576, weights + context, 1e-3);
  EXPECT_EQ(list[1]["configuration"]["tokens"], 30);
  EXPECT_EQ(list[2]["configuration"]["devices"], 2);
  EXPECT_GT(list[2]["rate"].get<double>(), 0);
}

TEST_F(BenchCommand, ContextComparesRunsAndBalance) {
  const Json list =
      figures("context seq=64 reordering_seq=128 balance_seq=128 vocab_size=128 base_mlp_dim=64 base_emb_dim=64");
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[1]["details"]["max_over_mean_area"], 1.0);
  EXPECT_NEAR(list[1]["details"]["reference_max_over_mean_area"].get<double>(), 1.5, 0.01);
  EXPECT_EQ(list[2]["configuration"]["reordering"], "dual_chunk_swap");
  EXPECT_EQ(list[3]["configuration"]["reordering"], "none");
}

TEST_F(BenchCommand, WrongUsageExitsWith2) {
  EXPECT_EQ(bench(""), 2);
  EXPECT_EQ(bench("atention"), 2);
  EXPECT_THAT(output(), HasSubstr("did you mean attention"));
  EXPECT_EQ(bench("attention sequence=64"), 2);
  EXPECT_THAT(output(), HasSubstr("unknown key 'sequence'"));
  for (const std::string& json : {std::string(), " --json '" + path("json") + "'"}) {
    for (const char* benchmark : {"gemm", "bandwidth", "attention"}) {
      EXPECT_EQ(bench(benchmark + std::string(" foo") + json), 2);
      EXPECT_THAT(output(), HasSubstr(benchmark + std::string(": expected key=value, not 'foo'")));
    }
  }
  EXPECT_EQ(bench("attention seq=64,x"), 2);
  EXPECT_THAT(output(), HasSubstr("'x' is not an integer"));
  EXPECT_EQ(bench("attention query_heads=3 kv_heads=2"), 2);
  EXPECT_THAT(output(), HasSubstr("query_heads=3"));
  EXPECT_EQ(bench("step base_emb_dmi=64"), 2);
  EXPECT_THAT(output(), HasSubstr("base_emb_dim"));
  EXPECT_EQ(bench("step seq=64 context_parallel_strategy=ring"), 2);
  EXPECT_EQ(bench("bandwidth mebibytes=16 --json -"), 2) << "its figures go there as they come";
  EXPECT_EQ(bench("bandwidth mebibytes=16 --json " + path("missing/folder/json")), 2);
  EXPECT_THAT(output(), HasSubstr("cannot be written"));
}

TEST_F(BenchCommand, HelpListsBenchmarksAndKeys) {
  EXPECT_EQ(bench("--help"), 0);
  for (const char* text : {"gemm:", "bandwidth:", "attention:", "decode_attention:", "decode:", "step:", "context:",
                           "kv_heads=2", "pairs=7"}) {
    EXPECT_THAT(output(), HasSubstr(text));
  }
}

}  // namespace
}  // namespace maxtext
