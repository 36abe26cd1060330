// Attention against MaxText's AttentionOp and JAX's gradients of it (fixtures/maxtext, README section 2): on one device
// and split over several, on every instruction set of the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cpu/attention_case.h"
#include "tensor/safetensors.h"
#include "testing/fixtures.h"

namespace maxtext {
namespace {

constexpr double tolerance = 1e-5;

struct Golden {
  testing::AttentionProblem problem;
  testing::AttentionResult expected;
  std::vector<bool> real_row;  ///< [B, S]: false for padding, to which we give zeros and MaxText finite values
};

std::vector<double> doubles(const SafetensorsFile& file, std::string_view name) {
  const std::vector<float> values = read_as_float(file, name);
  return {values.begin(), values.end()};
}

Golden read_golden(const std::filesystem::path& path, const nlohmann::json& about) {
  const SafetensorsFile file(path);
  Golden golden;
  testing::AttentionProblem& x = golden.problem;
  x.batch = about.at("batch");
  x.length = about.at("seq");
  x.query_heads = about.at("q_heads");
  x.kv_heads = about.at("kv_heads");
  x.head_dim = about.at("head_dim");
  x.scale = about.at("scale");
  x.q = doubles(file, "q");
  x.k = doubles(file, "k");
  x.v = doubles(file, "v");
  x.d_o = doubles(file, "w");
  golden.expected = {doubles(file, "out"), {}, doubles(file, "dq"), doubles(file, "dk"), doubles(file, "dv")};
  const std::vector<std::int64_t> segments = read_as_int64(file, "segment_ids");
  const std::int32_t window = about.at("window");
  for (std::int64_t i = 0; i < x.batch * x.length; ++i) {
    const std::int64_t row = i / x.length * x.length;
    const std::int64_t segment = segments[static_cast<std::size_t>(i)];
    std::int64_t begin = i;
    while (begin > row && segments[static_cast<std::size_t>(begin - 1)] == segment) --begin;
    begin -= row;
    const std::int64_t end = i - row + 1;
    if (window > 0) begin = std::max(begin, end - window);
    golden.real_row.push_back(segment != 0);
    x.key_begin.push_back(static_cast<std::int32_t>(segment != 0 ? begin : 0));
    x.key_end.push_back(static_cast<std::int32_t>(segment != 0 ? end : 0));
  }
  return golden;
}

/// MaxText lets padding attend to padding; only real rows and keys can be compared. (Real rows see no padding, and
/// padding rows see padding only, so neither affects the other's results.)
void expect_rows(const std::vector<float>& actual, const std::vector<double>& expected, const Golden& golden,
                 const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const std::size_t width = actual.size() / golden.real_row.size();
  double largest = 1;
  double worst = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (!golden.real_row[i / width]) {
      EXPECT_EQ(actual[i], 0.0F) << what << ": padding";
      continue;
    }
    const double difference = std::abs(static_cast<double>(actual[i]) - expected[i]);
    if (!(difference <= worst)) worst = difference;
  }
  EXPECT_LE(worst, tolerance * largest) << what;
}

void expect_golden(const Golden& golden, const testing::RunOptions& options, const std::string& name) {
  const testing::DeviceResult<float> result = testing::run_on_devices<float>(golden.problem, options);
  expect_rows(result.o, golden.expected.o, golden, name + " out");
  expect_rows(result.dq, golden.expected.dq, golden, name + " dq");
  expect_rows(result.dk, golden.expected.dk, golden, name + " dk");
  expect_rows(result.dv, golden.expected.dv, golden, name + " dv");
}

TEST(AttentionGolden, EveryMaxTextCase) {
  std::ifstream stream(testing::fixture_root() / "maxtext" / "attention.json");
  const nlohmann::json about = nlohmann::json::parse(stream);
  const std::string prefix = "attention_";
  for (const std::filesystem::path& path : testing::find_fixtures("maxtext/attention_*.safetensors")) {
    const std::string name = path.stem().string().substr(prefix.size());
    ASSERT_TRUE(about.contains(name)) << path;
    const Golden golden = read_golden(path, about.at(name));
    const std::int64_t length = golden.problem.length;
    for (const InstructionSet set : available_instruction_sets()) {
      const std::string what = name + " " + std::string(instruction_set_name(set));
      expect_golden(golden, {testing::one_device(length), {2, set}, 0}, what);
      if (length % 4 != 0) continue;
      expect_golden(golden, {testing::deal_chunks(length, 2, {0, 1, 1, 0}), {2, set}, 1}, what + " on 2 devices");
      expect_golden(golden, {testing::shuffled_order(length, 4, 1), {2, set}, 0}, what + " on 4 devices");
    }
  }
}

}  // namespace
}  // namespace maxtext
