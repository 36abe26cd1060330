// The engine can be changed: the model, the tape and `repeat` as they are, traced to StableHLO text, compiled by a PJRT
// plugin and run as replicas, give the loss and every gradient of the cpu engine.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <ostream>
#include <regex>

#include "engines/dry/dry_engine.h"
#include "engines/xla/replicas.h"
#include "testing/compare.h"
#include "xla/plugin.h"
#include "xla/traced_step.h"

namespace maxtext::testing {
namespace {

constexpr double kTolerance = 1e-5;
constexpr int kDevices = 4;

/// Norms that are not one and biases that are not zero, the same on every mesh.
void make_weights_general(const std::string& name, std::int64_t first, std::vector<double>& values) {
  if (name.find("norm") == std::string::npos && name.find("bias") == std::string::npos) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] += 0.3 * std::sin(static_cast<double>(first + static_cast<std::int64_t>(i) + std::ssize(name)));
  }
}

struct NamedCase {
  std::string name;
  StepCase step;
};

void PrintTo(const NamedCase& named, std::ostream* out) { *out << named.name; }

NamedCase make_case(std::string name, std::array<int, 4> mesh, std::vector<std::vector<std::int64_t>> documents) {
  NamedCase result{std::move(name), {}};
  result.step.shape = small_shape(6, 2, {0, 0});
  result.step.options.mesh = mesh;
  result.step.options.edit_weights = make_weights_general;
  result.step.batch = random_batch(33, documents, result.step.shape.vocab_size, 3);
  return result;
}

std::vector<NamedCase> cases() {
  std::vector<NamedCase> all;
  all.push_back(make_case("gqa_context_2", {1, 1, 2, 1}, {{33}, {33}}));
  all.push_back(make_case("one_device", {1, 1, 1, 1}, {{33}, {20, 13}}));

  NamedCase packed = make_case("packed_window_recomputed", {1, 1, 2, 1}, {{1, 0, 16, 1, 8}, {11, 11, 1}});
  packed.step.shape = small_shape(6, 2, {0, 5});
  packed.step.options.remat = "full";
  packed.step.options.z_loss_multiplier = 1e-3;
  packed.step.options.reorder = ReorderStrategy::striped;
  all.push_back(packed);

  NamedCase family = make_case("tied_biases_and_head_norms", {1, 1, 2, 1}, {{33}, {30}});
  family.step.shape.tie_word_embeddings = true;
  family.step.shape.attention_bias = true;
  family.step.shape.qk_norm = true;
  all.push_back(family);

  NamedCase gemma2 = make_case("gemma2_soft_caps", {1, 1, 2, 1}, {{33}, {30}});
  gemma2.step.shape = small_gemma2({5, 0});
  all.push_back(gemma2);
  NamedCase gemma3 = make_case("gemma3_two_rotary_embeddings", {1, 1, 2, 1}, {{33}, {30}});
  gemma3.step.shape = small_gemma3({5, 0});
  all.push_back(gemma3);

  all.push_back(make_case("fsdp_2_context_2", {1, 2, 2, 1}, {{33}, {16, 17}}));
  all.push_back(make_case("data_2_context_2", {2, 1, 2, 1}, {{33}, {16, 17}}));

  NamedCase wide = make_case("float64", {1, 1, 2, 1}, {{33}, {20, 13}});
  wide.step.options.dtype = DType::float64;
  all.push_back(wide);
  return all;
}

class XlaSpike : public ::testing::TestWithParam<NamedCase> {
 protected:
  const StepCase& step() const { return GetParam().step; }
};

TEST_P(XlaSpike, EveryDeviceTracesTheSameProgram) {
  const TracedMesh traced(step());
  const std::vector<XlaEngine*> engines = traced.engines();
  EXPECT_NO_THROW(check_same_program(std::vector<const XlaEngine*>(engines.begin(), engines.end())));
  for (std::size_t i = 1; i < engines.size(); ++i) {
    // Not because the devices were given the same.
    const auto differs = [](const HostArray& a, const HostArray& b) { return a.bytes != b.bytes; };
    EXPECT_FALSE(std::equal(engines[0]->arguments().begin(), engines[0]->arguments().end(),
                            engines[i]->arguments().begin(), std::not_fn(differs)));
  }
}

/// Not on weights, tokens or documents, as long as the plan gives them arrays of the same shapes.
TEST_P(XlaSpike, ProgramDependsOnShapesOnly) {
  StepCase other = step();
  other.options.seed += 1;
  std::vector<std::vector<std::int64_t>> documents(static_cast<std::size_t>(other.batch.rows), {3, 7, 11});
  other.batch = random_batch(other.batch.sequence_length, documents, other.shape.vocab_size, 99);
  EXPECT_EQ(TracedMesh(step()).engine(0).module_text(), TracedMesh(other).engine(0).module_text());
}

/// Kinds and logical bytes of the collectives in a module, in its order.
std::vector<std::pair<std::string, std::int64_t>> collectives_of(const std::string& text) {
  static const std::regex kCollective(
      R"re("stablehlo\.(all_gather|reduce_scatter|all_reduce)"[\s\S]*?replica_groups = [^:]*: )re"
      R"re(tensor<\d+x(\d+)xi64>\} : \(tensor<([^>]*)>\) -> tensor<([^>]*)>)re");
  const auto bytes_of = [](std::string type) {
    std::int64_t bytes = type.ends_with("f64") ? 8 : 4;
    for (std::size_t end = type.find('x'); end != std::string::npos; end = type.find('x')) {
      bytes *= std::stoll(type.substr(0, end));
      type = type.substr(end + 1);
    }
    return bytes;
  };
  std::vector<std::pair<std::string, std::int64_t>> found;
  for (std::sregex_iterator it(text.begin(), text.end(), kCollective), end; it != end; ++it) {
    const std::string kind = (*it)[1];
    const std::int64_t group = std::stoll((*it)[2]);
    const std::int64_t operand = bytes_of((*it)[3]);
    const std::int64_t result = bytes_of((*it)[4]);
    if (kind == "all_gather") found.emplace_back(kind, (group - 1) * operand);
    if (kind == "reduce_scatter") found.emplace_back(kind, (group - 1) * result);
    if (kind == "all_reduce") found.emplace_back(kind, (2 * (group - 1) * operand + group - 1) / group);
  }
  return found;
}

TEST_P(XlaSpike, CollectivesAreThoseOfTheDryEngine) {
  DryEngine dry(step().mesh(), 0);
  const TracedStep predicted(step(), dry);
  std::vector<std::pair<std::string, std::int64_t>> expected;
  for (const RecordedCollective& collective : dry.collectives()) {
    expected.emplace_back(collective_name(collective.kind), collective.bytes);
  }
  if (step().mesh().device_count() > 1) {
    EXPECT_FALSE(expected.empty());
  }
  EXPECT_EQ(collectives_of(TracedMesh(step()).engine(0).module_text()), expected);
}

/// One client for all tests: a plugin wants to be loaded once.
class XlaSpikeOnPlugin : public XlaSpike {
 protected:
  static void SetUpTestSuite() {
    if (why_no_plugin().empty()) client_ = PjrtClient::open(plugin_path(), kDevices);
  }
  static void TearDownTestSuite() { client_.reset(); }

  void SetUp() override {
    if (const std::string reason = why_no_plugin(); !reason.empty()) GTEST_SKIP() << reason;
  }

  static std::unique_ptr<PjrtClient> client_;
};
std::unique_ptr<PjrtClient> XlaSpikeOnPlugin::client_;

TEST_P(XlaSpikeOnPlugin, LossAndEveryGradientEqualTheCpuEngines) {
  const TracedMesh traced(step());
  run_replicas(*client_, traced.engines());
  const ModelRunResult actual = traced.collect();

  const ModelRunResult expected = run_model(step().shape, step().batch, step().options);
  EXPECT_NEAR(actual.loss, expected.loss, kTolerance * std::abs(expected.loss));
  EXPECT_TRUE(all_close(actual.nll, expected.nll, kTolerance, "nll"));
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
  for (const auto& [name, values] : expected.gradients) {
    ASSERT_TRUE(actual.gradients.contains(name)) << name;
    EXPECT_TRUE(all_close(actual.gradients.at(name), values, kTolerance, name));
  }
}

INSTANTIATE_TEST_SUITE_P(Model, XlaSpikeOnPlugin, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });
INSTANTIATE_TEST_SUITE_P(Model, XlaSpike, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace maxtext::testing
