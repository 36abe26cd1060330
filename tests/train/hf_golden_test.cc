// fixtures/hf/models: logits of every position, loss and every gradient of Hugging Face transformers.
#include <gtest/gtest.h>

#include <cmath>

#include "tensor/safetensors.h"
#include "testing/compare.h"
#include "testing_model/hf_fixture.h"
#include "testing_model/model_run.h"

namespace maxtext::testing {
namespace {

class HfModel : public ::testing::TestWithParam<std::string> {
 protected:
  ModelRunResult run(const std::string& prompt, int cp, bool logits, bool gradients) const {
    ModelRunOptions options;
    options.mesh = {1, 1, cp, 1};
    options.weights = &fixture_.weights();
    options.with_logits = logits;
    options.with_gradients = gradients;
    return run_model(fixture_.shape(), fixture_.batch(prompt), options);
  }

  HfFixture fixture_{GetParam()};
};

TEST_P(HfModel, LogitsOfEveryPosition) {
  for (const std::string prompt : {"prompt0", "prompt1", "long"}) {
    const std::vector<float> expected = read_as_float(fixture_.golden(), prompt + ".logits");
    for (const int cp : {1, 2, 3}) {
      const ModelRunResult result = run(prompt, cp, true, false);
      ASSERT_EQ(result.logits.size(), expected.size());
      EXPECT_LE(max_abs_difference(result.logits, expected), 1e-4) << prompt << " cp=" << cp;
    }
  }
}

TEST_P(HfModel, TokenLogLikelihoods) {
  for (const std::string prompt : {"prompt0", "prompt1", "long"}) {
    const std::vector<float> expected = read_as_float(fixture_.golden(), prompt + ".token_logprobs");
    const ModelRunResult result = run(prompt, 1, false, false);
    std::vector<float> logprobs;
    for (std::size_t i = 0; i < expected.size(); ++i) logprobs.push_back(-result.nll[i]);
    EXPECT_LE(max_abs_difference(logprobs, expected), 1e-4) << prompt;
  }
}

TEST_P(HfModel, LossAndEveryGradient) {
  if (!std::filesystem::exists(fixture_.directory() / "golden_grads.safetensors")) {
    GTEST_SKIP() << "the fixture has no gradients; FiniteDifferences covers the family";
  }
  const SafetensorsFile gradients(fixture_.directory() / "golden_grads.safetensors");
  const float loss = read_as_float(fixture_.golden(), "long.loss").at(0);
  for (const int cp : {1, 4}) {
    const ModelRunResult result = run("long", cp, false, true);
    EXPECT_NEAR(result.loss, loss, 1e-5) << "cp=" << cp;
    EXPECT_EQ(result.gradients.size(), gradients.entries().size());
    double squares = 0;
    double expected_squares = 0;
    for (const auto& [name, values] : result.gradients) {
      const std::vector<float> expected = read_as_float(gradients, name);
      ASSERT_EQ(values.size(), expected.size()) << name;
      double largest = 0;
      double worst = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        largest = std::max<double>(largest, std::abs(expected[i]));
        worst = std::max(worst, std::abs(values[i] - expected[i]));
        squares += values[i] * values[i];
        expected_squares += static_cast<double>(expected[i]) * expected[i];
      }
      EXPECT_LE(worst, 1e-4 * largest + 1e-6) << name << " cp=" << cp;
    }
    EXPECT_NEAR(std::sqrt(squares / expected_squares), 1, 1e-4) << "cp=" << cp;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, HfModel, ::testing::ValuesIn(HfFixture::names()), [](const auto& instance) {
  std::string name = instance.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace maxtext::testing
