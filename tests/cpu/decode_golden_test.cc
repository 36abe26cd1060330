// Decode attention against JAX's split-K kernel (fixtures/maxtext, README section 3), on every instruction set of the
// host, in both layouts and for several numbers of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cpu/decode_case.h"
#include "tensor/safetensors.h"
#include "testing/fixtures.h"

namespace maxtext {
namespace {

struct Golden {
  testing::DecodeProblem problem;
  std::vector<float> unnormalised, normalised, l, m;
};

/// [B, S, kv_heads, D] to [B, kv_heads, S, D].
std::vector<float> by_head(const std::vector<float>& values, std::int64_t batch, std::int64_t length,
                           std::int64_t heads, std::int64_t head_dim) {
  std::vector<float> result(values.size());
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t s = 0; s < length; ++s) {
      for (std::int64_t h = 0; h < heads; ++h) {
        std::copy_n(values.begin() + ((b * length + s) * heads + h) * head_dim, head_dim,
                    result.begin() + ((b * heads + h) * length + s) * head_dim);
      }
    }
  }
  return result;
}

std::vector<std::int32_t> int32s(const SafetensorsFile& file, std::string_view name) {
  const std::vector<std::int64_t> values = read_as_int64(file, name);
  return {values.begin(), values.end()};
}

Golden read_golden(const std::filesystem::path& path, const nlohmann::json& about) {
  const SafetensorsFile file(path);
  Golden golden;
  testing::DecodeProblem& x = golden.problem;
  x.shape = {.batch = about.at("batch"),
             .query_heads = about.at("q_heads"),
             .kv_heads = about.at("kv_heads"),
             .head_dim = about.at("head_dim"),
             .capacity = about.at("kv_capacity"),
             .scale = about.at("sm_scale")};
  x.positions = x.shape.capacity;
  x.start_idx = int32s(file, "start_idx");
  x.kv_seq_len = int32s(file, "kv_seq_len");
  x.q = read_as_float(file, "q");
  x.k = by_head(read_as_float(file, "k"), x.shape.batch, x.positions, x.shape.kv_heads, x.shape.head_dim);
  x.v = by_head(read_as_float(file, "v"), x.shape.batch, x.positions, x.shape.kv_heads, x.shape.head_dim);
  golden.unnormalised = read_as_float(file, "out_unnormalized");
  golden.normalised = read_as_float(file, "out_normalized");
  golden.l = read_as_float(file, "l");
  golden.m = read_as_float(file, "m");
  return golden;
}

/// The fixture has the most negative float where we have −∞; l and o are 0 in both.
testing::DecodeResult expected_of(const Golden& golden, bool normalize) {
  return {normalize ? golden.normalised : golden.unnormalised, golden.l, golden.m};
}

TEST(DecodeGolden, EveryCase) {
  std::ifstream stream(testing::fixture_root() / "maxtext" / "decode_gqa.json");
  const nlohmann::json about = nlohmann::json::parse(stream);
  const std::string prefix = "decode_gqa_";
  int empty_rows = 0;
  for (const std::filesystem::path& path : testing::find_fixtures("maxtext/decode_gqa_*.safetensors")) {
    const std::string name = path.stem().string().substr(prefix.size());
    ASSERT_TRUE(about.contains(name)) << path;
    Golden golden = read_golden(path, about.at(name));
    empty_rows += static_cast<int>(std::ranges::count(golden.l, 0.0F));
    for (const bool normalize : {false, true}) {
      golden.problem.shape.normalize = normalize;
      for (const InstructionSet set : available_instruction_sets()) {
        for (const int threads : {1, 2, 5}) {
          for (const auto layout : {testing::CacheLayout::head_major, testing::CacheLayout::slot_major}) {
            testing::expect_close(testing::run_decode(golden.problem, {threads, set}, layout),
                                  expected_of(golden, normalize),
                                  name + " " + std::string(instruction_set_name(set)) + " threads " +
                                      std::to_string(threads) + (normalize ? " normalised" : " unnormalised"));
          }
        }
      }
    }
  }
  EXPECT_GT(empty_rows, 0);
}

}  // namespace
}  // namespace maxtext
