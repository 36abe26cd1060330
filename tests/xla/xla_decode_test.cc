// Generation on the xla engine: the tokens that the cpu engine generates, by programs whose number depends neither on
// how many tokens are generated nor on the slots.
#include <gtest/gtest.h>

#include <numeric>
#include <ostream>

#include "engines/xla/xla_engine.h"
#include "engines/xla/xla_runtime.h"
#include "model/hf_config.h"
#include "testing/compare.h"
#include "testing/fixtures.h"
#include "testing_inference/model_on_devices.h"
#include "xla/plugin.h"

namespace maxtext::testing {
namespace {

/// Of the fixtures, whose logits have a standard deviation of 1 to 2.
constexpr double kTolerance = 1e-4;

struct Model {
  explicit Model(const std::string& name)
      : shape(read_hf_config(fixture_root() / "hf" / "models" / name)),
        weights(open_weights(fixture_root() / "hf" / "models" / name)) {}

  ModelShape shape;
  std::unique_ptr<WeightSource> weights;
};

/// Ids that do not repeat soon.
std::vector<std::int32_t> some_ids(std::int64_t count, std::int32_t first) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < count; ++i) ids.push_back((first + 37 * i + i * i) % 320);
  return ids;
}

GenerationRequest request(std::int64_t prompt, std::int64_t answer, bool greedy) {
  GenerationRequest result;
  result.prompt = some_ids(prompt, static_cast<std::int32_t>(prompt));
  result.max_new_tokens = answer;
  result.sampling.greedy = greedy;
  result.seed = 7;
  return result;
}

std::vector<std::vector<std::int32_t>> answers(CachedModel& model, const std::vector<GenerationRequest>& requests) {
  std::vector<std::vector<std::int32_t>> result;
  for (Generation& generation : generate(model, requests).generations) result.push_back(std::move(generation.ids));
  return result;
}

struct NamedCase {
  std::string name;
  std::string model;
  int context = 1;
  int tensor = 1;
  std::int64_t slots = 1;
  DType cache = DType::float32;
  std::vector<GenerationRequest> requests;
};

void PrintTo(const NamedCase& named, std::ostream* out) { *out << named.name; }

std::vector<NamedCase> cases() {
  std::vector<NamedCase> all;
  // Prompts of chunks of 16: two and a part; one; a part.
  all.push_back({.name = "llama_on_slots",
                 .model = "llama",
                 .slots = 2,
                 .requests = {request(40, 12, true), request(16, 14, false), request(3, 9, true)}});
  all.push_back(
      {.name = "gemma3_windows_tensor_2", .model = "gemma3", .tensor = 2, .requests = {request(40, 12, true)}});
  all.push_back({.name = "llama_context_2_int8",
                 .model = "llama",
                 .context = 2,
                 .cache = DType::int8,
                 .requests = {request(40, 12, false)}});
  return all;
}

class XlaDecode : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_plugin(); !reason.empty()) GTEST_SKIP() << reason;
  }

  void open(int devices) { runtime_ = std::make_shared<XlaRuntime>(PjrtClient::open(plugin_path(), devices), devices); }

  DeviceRunOptions on_plugin(DeviceRunOptions options) const {
    options.make_engine = [this](Communicator& communicator) {
      return std::make_unique<XlaEngine>(communicator.mesh(), communicator.device(), runtime_);
    };
    return options;
  }

  std::shared_ptr<XlaRuntime> runtime_;
};

class XlaDecodeCases : public XlaDecode, public ::testing::WithParamInterface<NamedCase> {};

TEST_P(XlaDecodeCases, TokensAreTheCpuEngines) {
  const NamedCase& named = GetParam();
  const Model model(named.model);
  open(named.context * named.tensor);
  DeviceRunOptions options;
  options.devices = named.context;
  options.tensor = named.tensor;
  options.model.cache = {.sequences = named.slots, .max_length = 72, .dtype = named.cache};
  options.model.prefill_chunk = 16;
  std::vector<std::vector<std::int32_t>> expected;
  std::vector<std::vector<std::int32_t>> actual;
  run_cached_model(model.shape, *model.weights, options, [&](CachedModel& cached, int device) {
    const auto ids = answers(cached, named.requests);
    if (device == 0) expected = ids;
  });
  run_cached_model(model.shape, *model.weights, on_plugin(options), [&](CachedModel& cached, int device) {
    const auto ids = answers(cached, named.requests);
    if (device == 0) actual = ids;
  });
  EXPECT_EQ(actual, expected);
  // A chunk, the logits of its last token, a decode step; a slot's copy of a prompt.
  const int copies = named.slots > 1 ? static_cast<int>(named.slots) : 0;
  EXPECT_EQ(runtime_->compiled_programs(), 3 + copies);
}

INSTANTIATE_TEST_SUITE_P(Models, XlaDecodeCases, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

/// Beyond the first bucket of 256 positions, by a step and by a prompt.
TEST_F(XlaDecode, TheCacheGrowsAndOneProgramServesAllStepsOfABucket) {
  const Model model("llama");
  open(1);
  DeviceRunOptions options;
  options.model.cache = {.sequences = 1, .max_length = 1000};
  const std::vector<std::int32_t> ids = some_ids(262, 1);
  std::vector<int> programs;
  const auto run = [&](CachedModel& cached) {
    std::vector<float> logits;
    for (std::size_t t = 246; t < ids.size(); ++t) {
      if (t == 246) logits = cached.prefill(0, std::span(ids).first(t), {});
      const auto next = cached.step(std::vector<int>{0}, std::span(ids).subspan(t, 1)).front();
      logits.insert(logits.end(), next.begin(), next.end());
      programs.push_back(runtime_->compiled_programs());
    }
    const auto last = cached.prefill(0, std::span(ids).first(200), {});
    logits.insert(logits.end(), last.begin(), last.end());
    return logits;
  };
  std::vector<float> expected;
  std::vector<float> actual;
  run_cached_model(model.shape, *model.weights, options, [&](CachedModel& cached, int) { expected = run(cached); });
  programs.clear();
  run_cached_model(model.shape, *model.weights, on_plugin(options),
                   [&](CachedModel& cached, int) { actual = run(cached); });
  EXPECT_LE(max_abs_difference(actual, expected), kTolerance);
  // A prompt's chunk, its logits, a step; then the growth of a layer, and a step of the larger cache.
  const std::vector<int> steps_of_first_bucket(10, 3);
  const std::vector<int> steps_of_second(6, 5);
  EXPECT_TRUE(std::equal(programs.begin(), programs.begin() + 10, steps_of_first_bucket.begin()));
  EXPECT_TRUE(std::equal(programs.begin() + 10, programs.end(), steps_of_second.begin(), steps_of_second.end()));
}

/// Where nothing was read yet, a step is the same program as later.
TEST_F(XlaDecode, TheFirstStepIsTheProgramOfAllSteps) {
  const Model model("mistral");
  open(1);
  DeviceRunOptions options;
  options.model.cache = {.sequences = 1, .max_length = 40, .dtype = DType::int8};
  run_cached_model(model.shape, *model.weights, on_plugin(options), [&](CachedModel& cached, int) {
    for (const std::int32_t id : some_ids(4, 5)) cached.step(std::vector<int>{0}, std::vector<std::int32_t>{id});
  });
  EXPECT_EQ(runtime_->compiled_programs(), 1);
}

}  // namespace
}  // namespace maxtext::testing
