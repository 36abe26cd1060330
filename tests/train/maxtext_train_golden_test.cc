// fixtures/maxtext/train_*: twenty steps of MaxText's own training, with one device and with context parallelism 4.
#include <gtest/gtest.h>

#include "data/open_dataset.h"
#include "tensor/safetensors.h"
#include "testing/compare.h"
#include "testing_model/maxtext_fixture.h"
#include "testing_model/model_run.h"

namespace maxtext::testing {
namespace {

class MaxTextRun : public ::testing::TestWithParam<std::string> {
 protected:
  MaxTextFixture fixture_{GetParam()};
};

TEST_P(MaxTextRun, OneDevice) { fixture_.expect_matches(fixture_.train({}), "loss_cp1", "grad_norm_before_clip_cp1"); }

TEST_P(MaxTextRun, ContextParallelismFour) {
  fixture_.expect_matches(fixture_.train({.mesh = {1, 1, 4, 1}, .remat = "full", .make_engine = {}}),
                          "loss_cp4_load_balanced", "grad_norm_before_clip_cp4");
}

TEST_P(MaxTextRun, EveryAxisAndMicroBatches) {
  fixture_.expect_matches(
      fixture_.train({.mesh = {1, 2, 2, 1}, .micro_batches = 2, .remat = "minimal", .make_engine = {}}),
      "loss_fp64_independent", "grad_norm_before_clip_fp64_independent");
  fixture_.expect_matches(fixture_.train({.mesh = {2, 1, 2, 1}, .make_engine = {}}), "loss_fp64_independent",
                          "grad_norm_before_clip_fp64_independent");
}

TEST_P(MaxTextRun, FirstGradients) {
  DatasetOptions data;
  data.type = "batches";
  data.train_files = {(fixture_.directory() / "batches.safetensors").string()};
  data.sequence_length = 128;
  data.vocab_size = fixture_.shape().vocab_size;
  const std::optional<RowBatch> batch = open_dataset(data, Split::train)->read(0, 4);
  ASSERT_TRUE(batch.has_value());
  const std::unique_ptr<WeightSource> initial = open_weights(fixture_.directory());
  const SafetensorsFile expected(fixture_.directory() / "grads_step0.safetensors");
  for (const int cp : {1, 4}) {
    ModelRunOptions options;
    options.mesh = {1, 1, cp, 1};
    options.weights = initial.get();
    const ModelRunResult result = run_model(fixture_.shape(), *batch, options);
    EXPECT_EQ(result.gradients.size(), expected.entries().size());
    for (const auto& [name, values] : result.gradients) {
      const std::vector<float> golden = read_as_float(expected, name);
      EXPECT_LE(relative_difference(values, {golden.begin(), golden.end()}), 1e-5) << name << " cp=" << cp;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, MaxTextRun, ::testing::ValuesIn(MaxTextFixture::names()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace maxtext::testing
