// fixtures/hf/models through the KV cache: logits of every position, greedy continuations, and the logits they came
// from, of Hugging Face transformers.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "engines/cpu/cpu_engine.h"
#include "inference/generator.h"
#include "mesh/thread_transport.h"
#include "model/hf_config.h"
#include "model/layout.h"
#include "tensor/safetensors.h"
#include "testing/compare.h"
#include "testing/fixtures.h"
#include "testing_inference/model_on_devices.h"

namespace maxtext::testing {
namespace {

constexpr std::int64_t kNewTokens = 32;

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& path : find_fixtures("hf/models/*/golden.safetensors")) {
    names.push_back(path.parent_path().filename().string());
  }
  return names;
}

std::vector<std::int32_t> ids_of(const SafetensorsFile& file, const std::string& name) {
  const std::vector<std::int64_t> wide = read_as_int64(file, name);
  return {wide.begin(), wide.end()};
}

class CachedHfModel : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::filesystem::path directory = fixture_root() / "hf" / "models" / GetParam();
    shape_ = read_hf_config(directory);
    weights_ = open_weights(directory);
    golden_ = std::make_unique<SafetensorsFile>(directory / "golden.safetensors");
  }

  DeviceRunOptions options(std::int64_t sequences = 1) const {
    DeviceRunOptions result;
    result.model.cache.sequences = sequences;
    result.model.cache.max_length = 512;
    return result;
  }

  std::vector<std::int32_t> ids(const std::string& prompt) const { return ids_of(*golden_, prompt + ".input_ids"); }

  std::vector<float> all_logits(const DeviceRunOptions& options, const std::string& prompt) const {
    std::vector<float> result;
    run_cached_model(shape_, *weights_, options, [&](CachedModel& model, int device) {
      const std::vector<std::int32_t> tokens = ids(prompt);
      model.prefill_all(0, tokens, [&](std::int64_t, std::span<const float> logits) {
        if (device == 0) result.insert(result.end(), logits.begin(), logits.end());
      });
    });
    return result;
  }

  /// Teacher-forced: the first token as a prompt, each other one as a step.
  std::vector<float> stepwise_logits(const DeviceRunOptions& options, const std::string& prompt) const {
    std::vector<float> result;
    run_cached_model(shape_, *weights_, options, [&](CachedModel& model, int device) {
      const std::vector<std::int32_t> tokens = ids(prompt);
      std::vector<float> logits = model.prefill(0, std::span(tokens).first(1), {});
      for (std::size_t t = 1; t <= tokens.size(); ++t) {
        if (device == 0) result.insert(result.end(), logits.begin(), logits.end());
        if (t < tokens.size()) logits = model.step(std::vector<int>{0}, std::span(tokens).subspan(t, 1))[0];
      }
    });
    return result;
  }

  void expect_logits(const std::vector<float>& actual, const std::string& prompt, const std::string& what) const {
    const std::vector<float> expected = read_as_float(*golden_, prompt + ".logits");
    ASSERT_EQ(actual.size(), expected.size()) << what;
    EXPECT_LE(max_abs_difference(actual, expected), 1e-4) << prompt << ": " << what;
  }

  ModelShape shape_;
  std::unique_ptr<WeightSource> weights_;
  std::unique_ptr<SafetensorsFile> golden_;
};

/// So the tolerances above hold for bfloat16 weights multiplied as they are, not for a float32 copy of them.
TEST_P(CachedHfModel, WeightsStayInTheFileAsTheyAreStored) {
  const DType stored = GetParam() == "llama-bf16" ? DType::bfloat16 : DType::float32;
  ThreadTransport transport{Mesh({1, 1, 1, 1})};
  const std::unique_ptr<Communicator> communicator = transport.communicator(0);
  CpuEngine engine({.threads = 1}, *communicator);
  const InferenceWeights weights(engine, shape_, *weights_);
  std::int64_t bytes = 0;
  const ModelLayout layout = model_layout(shape_);
  for (std::size_t g = 0; g < layout.groups.size(); ++g) {
    for (std::size_t k = 0; k < layout.groups[g].parameters.size(); ++k) {
      const Tensor& tensor = weights.group(g)[k];
      const std::string& name = layout.groups[g].parameters[k].name;
      EXPECT_EQ(tensor.dtype(), stored) << name;
      EXPECT_EQ(engine.host_bytes(tensor).data(), weights_->mapped(name).get()) << name;
      bytes += tensor.spec().bytes();
    }
  }
  EXPECT_EQ(engine.memory().borrowed_bytes(), bytes);
  EXPECT_EQ(engine.memory().live_bytes(), 0);
}

TEST_P(CachedHfModel, PrefillInChunksGivesTheLogitsOfEveryPosition) {
  for (const std::string prompt : {"prompt0", "prompt1", "long"}) {
    for (const std::int64_t chunk : {512, 32, 7}) {
      DeviceRunOptions run = options();
      run.model.prefill_chunk = chunk;
      expect_logits(all_logits(run, prompt), prompt, "chunks of " + std::to_string(chunk));
    }
  }
}

TEST_P(CachedHfModel, StepByStepGivesTheLogitsOfEveryPosition) {
  for (const bool fast_few_rows : {true, false}) {
    for (const std::string prompt : {"prompt0", "long"}) {
      DeviceRunOptions run = options();
      run.fast_few_rows = fast_few_rows;
      expect_logits(stepwise_logits(run, prompt), prompt, fast_few_rows ? "decode's kernels" : "training's kernels");
    }
  }
}

TEST_P(CachedHfModel, AnswersAreThoseOfTransformersAloneAndInABatch) {
  std::vector<GenerationRequest> requests;
  for (const std::string prompt : {"prompt0", "prompt1"}) {
    requests.push_back(
        {.prompt = ids(prompt), .max_new_tokens = kNewTokens, .sampling = {}, .seed = 0, .stop_ids = {}});
  }
  for (const std::int64_t sequences : {1, 2, 3}) {
    run_cached_model(shape_, *weights_, options(sequences), [&](CachedModel& model, int) {
      const GenerationOutcome outcome = generate(model, requests);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        EXPECT_EQ(outcome.generations[i].ids, ids_of(*golden_, "prompt" + std::to_string(i) + ".greedy_ids"))
            << sequences << " slots, prompt " << i;
      }
    });
  }
}

TEST_P(CachedHfModel, LogitsOfTheAnswerAreThoseOfTransformers) {
  run_cached_model(shape_, *weights_, options(2), [&](CachedModel& model, int) {
    const std::vector<std::int32_t> greedy = ids_of(*golden_, "prompt1.greedy_ids");
    std::vector<float> logits = model.prefill(1, ids("prompt1"), {});
    std::vector<float> actual;
    for (const std::int32_t id : greedy) {
      actual.insert(actual.end(), logits.begin(), logits.end());
      logits = model.step(std::vector<int>{1}, std::vector<std::int32_t>{id})[0];
    }
    EXPECT_LE(max_abs_difference(actual, read_as_float(*golden_, "prompt1.greedy_logits")), 1e-4);
  });
}

TEST_P(CachedHfModel, ACacheSharedByDevicesGivesTheSame) {
  for (const int devices : {2, 3}) {
    DeviceRunOptions run = options();
    run.devices = devices;
    run.model.prefill_chunk = 16;  // pages of 16, so that a short sequence lies on every device
    expect_logits(all_logits(run, "long"), "long", std::to_string(devices) + " devices");
    expect_logits(stepwise_logits(run, "prompt0"), "prompt0", std::to_string(devices) + " devices, steps");
  }
}

TEST_P(CachedHfModel, HeadsAndVocabularyCutOverDevicesGiveTheSame) {
  const auto divided = [&](int parts) {
    return shape_.query_heads % parts == 0 && shape_.vocab_size % parts == 0 && shape_.intermediate_size % parts == 0 &&
           (shape_.kv_heads % parts == 0 || parts % shape_.kv_heads == 0);
  };
  int runs = 0;
  for (const int tensor : {2, 4}) {
    if (!divided(tensor)) continue;
    DeviceRunOptions run = options();
    run.tensor = tensor;
    expect_logits(all_logits(run, "long"), "long", std::to_string(tensor) + " devices");
    run.devices = 2;
    run.model.prefill_chunk = 16;
    expect_logits(stepwise_logits(run, "prompt0"), "prompt0", std::to_string(tensor) + " x 2 devices, steps");
    ++runs;
  }
  // These have odd numbers of heads, or an odd vocabulary.
  const bool odd = GetParam() == "llama-tied" || GetParam() == "qwen2";
  EXPECT_EQ(runs > 0, !odd);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, CachedHfModel, ::testing::ValuesIn(model_names()), [](const auto& parameter) {
  std::string name = parameter.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace maxtext::testing
