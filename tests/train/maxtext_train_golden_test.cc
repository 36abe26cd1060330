// fixtures/maxtext/train_*: twenty steps of MaxText's own training, with one device and with context parallelism 4.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "data/open_dataset.h"
#include "engines/cpu/cpu_engine.h"
#include "mesh/device_program.h"
#include "mesh/thread_transport.h"
#include "model/hf_config.h"
#include "tensor/safetensors.h"
#include "testing/compare.h"
#include "testing/fixtures.h"
#include "testing_model/model_run.h"
#include "train/batch_provider.h"
#include "train/device_state.h"
#include "train/train_step.h"

namespace maxtext::testing {
namespace {

std::vector<std::string> run_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(fixture_root() / "maxtext")) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && name.starts_with("train_")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct TrainedRun {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<double> weights;
  std::map<std::string, std::vector<double>> first_gradients;
  std::map<std::string, std::vector<float>> final_weights;
};

class MaxTextRun : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    directory_ = fixture_root() / "maxtext" / GetParam();
    std::ifstream(directory_ / "metrics.json") >> metrics_;
    shape_ = read_hf_config(directory_);
  }

  OptimizerOptions optimizer_options() const {
    const nlohmann::json& options = metrics_.at("optimizer");
    OptimizerOptions result;
    result.adamw.b1 = options.at("adam_b1");
    result.adamw.b2 = options.at("adam_b2");
    result.adamw.epsilon = options.at("adam_eps");
    result.adamw.weight_decay = options.at("adam_weight_decay");
    result.gradient_clipping_threshold = options.at("gradient_clipping_threshold");
    return result;
  }

  TrainedRun train(std::array<int, 4> mesh, int micro_batches, const std::string& remat) const;

  std::filesystem::path directory_;
  nlohmann::json metrics_;
  ModelShape shape_;
};

TrainedRun MaxTextRun::train(std::array<int, 4> mesh, int micro_batches, const std::string& remat) const {
  const LayerAttentionTypes attention = layer_attention_types(shape_.layer_windows);
  DatasetOptions data;
  data.type = "batches";
  data.train_files = {(directory_ / "batches.safetensors").string()};
  data.sequence_length = 128;
  data.vocab_size = shape_.vocab_size;
  BatchProvider provider(open_dataset(data, Split::train), 0, 4,
                         {.attention_types = attention.types, .context_parallelism = mesh[2]});
  const std::unique_ptr<WeightSource> initial = open_weights(directory_);
  ThreadTransport transport{Mesh(mesh)};
  TrainedRun run;
  std::mutex mutex;
  const auto program = [&](int device) {
    const auto communicator = transport.communicator(device);
    CpuEngine engine({.threads = 1}, *communicator);
    ParameterShards parameters(engine, model_layout(shape_, engine.mesh(), engine.device()));
    load_weights(*initial, parameters);
    Optimizer optimizer(parameters, optimizer_options());
    Decoder decoder(engine, shape_, attention.of_layer, {.remat = remat_policy(remat)});
    TrainStep step(decoder, parameters, optimizer);
    const std::int64_t steps = metrics_.at("steps");
    for (std::int64_t i = 0; i < steps; ++i) {
      const auto planned = provider.get(i);
      ASSERT_NE(planned, nullptr);
      const StepOutput output = step.run(
          i, metrics_.at("learning_rate").at(static_cast<std::size_t>(i)), micro_batches,
          [&](int m) {
            return make_device_batch(engine, planned->plan, planned->rows,
                                     device_rows(engine.mesh(), device, 4, micro_batches, m));
          },
          planned->total_weights);
      if (device != 0) continue;
      run.losses.push_back(output.loss);
      run.norms.push_back(output.gradient_norm);
      run.weights.push_back(planned->total_weights);
    }
    const DeviceState state = device_state(parameters, optimizer);
    const std::lock_guard lock(mutex);
    for (const OwnedRange& range : state.ranges) {
      if (range.kind != kWeights) continue;
      std::vector<float>& whole = run.final_weights[range.name];
      whole.resize(static_cast<std::size_t>(range.spec.elements()));
      std::memcpy(whole.data() + range.first, range.bytes.data(), range.bytes.size());
    }
  };
  run_devices(transport.local_devices(), program,
              [&](int device, const std::string& reason) { transport.abort(device, reason); });
  return run;
}

void expect_matches(const TrainedRun& run, const nlohmann::json& metrics, const std::filesystem::path& directory,
                    const std::string& losses, const std::string& norms) {
  const std::vector<double> expected = metrics.at(losses);
  ASSERT_EQ(run.losses.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(run.losses[i], expected[i], 1e-5) << "loss of step " << i;
    const double norm = metrics.at(norms).at(i);
    EXPECT_NEAR(run.norms[i], norm, 1e-5 * norm) << "gradient norm of step " << i;
    EXPECT_EQ(run.weights[i], metrics.at("total_weights").at(i).get<double>()) << "weights of step " << i;
  }
  const SafetensorsFile final_weights(directory / "final.safetensors");
  EXPECT_EQ(run.final_weights.size(), final_weights.entries().size());
  for (const auto& [name, values] : run.final_weights) {
    EXPECT_LE(max_abs_difference(values, read_as_float(final_weights, name)), 2e-5) << name;
  }
}

TEST_P(MaxTextRun, OneDevice) {
  expect_matches(train({1, 1, 1, 1}, 1, "none"), metrics_, directory_, "loss_cp1", "grad_norm_before_clip_cp1");
}

TEST_P(MaxTextRun, ContextParallelismFour) {
  expect_matches(train({1, 1, 4, 1}, 1, "full"), metrics_, directory_, "loss_cp4_load_balanced",
                 "grad_norm_before_clip_cp4");
}

TEST_P(MaxTextRun, EveryAxisAndMicroBatches) {
  expect_matches(train({1, 2, 2, 1}, 2, "minimal"), metrics_, directory_, "loss_fp64_independent",
                 "grad_norm_before_clip_fp64_independent");
  expect_matches(train({2, 1, 2, 1}, 1, "none"), metrics_, directory_, "loss_fp64_independent",
                 "grad_norm_before_clip_fp64_independent");
}

TEST_P(MaxTextRun, FirstGradients) {
  const SafetensorsFile batches(directory_ / "batches.safetensors");
  DatasetOptions data;
  data.type = "batches";
  data.train_files = {(directory_ / "batches.safetensors").string()};
  data.sequence_length = 128;
  data.vocab_size = shape_.vocab_size;
  const std::optional<RowBatch> batch = open_dataset(data, Split::train)->read(0, 4);
  ASSERT_TRUE(batch.has_value());
  const std::unique_ptr<WeightSource> initial = open_weights(directory_);
  const SafetensorsFile expected(directory_ / "grads_step0.safetensors");
  for (const int cp : {1, 4}) {
    ModelRunOptions options;
    options.mesh = {1, 1, cp, 1};
    options.weights = initial.get();
    const ModelRunResult result = run_model(shape_, *batch, options);
    EXPECT_EQ(result.gradients.size(), expected.entries().size());
    for (const auto& [name, values] : result.gradients) {
      const std::vector<float> golden = read_as_float(expected, name);
      EXPECT_LE(relative_difference(values, {golden.begin(), golden.end()}), 1e-5) << name << " cp=" << cp;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, MaxTextRun, ::testing::ValuesIn(run_names()),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace maxtext::testing
