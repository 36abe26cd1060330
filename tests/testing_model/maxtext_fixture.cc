#include "testing_model/maxtext_fixture.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <mutex>

#include "data/open_dataset.h"
#include "engines/cpu/cpu_engine.h"
#include "mesh/device_program.h"
#include "mesh/thread_transport.h"
#include "model/hf_config.h"
#include "tensor/safetensors.h"
#include "testing/compare.h"
#include "testing/fixtures.h"
#include "train/batch_provider.h"
#include "train/device_batch.h"
#include "train/device_state.h"
#include "train/train_step.h"

namespace maxtext::testing {
namespace {

constexpr std::int64_t kRows = 4;

OptimizerOptions optimizer_options(const nlohmann::json& options) {
  OptimizerOptions result;
  result.adamw.b1 = options.at("adam_b1");
  result.adamw.b2 = options.at("adam_b2");
  result.adamw.epsilon = options.at("adam_eps");
  result.adamw.weight_decay = options.at("adam_weight_decay");
  result.gradient_clipping_threshold = options.at("gradient_clipping_threshold");
  return result;
}

void keep_weights(const DeviceState& state, std::map<std::string, std::vector<float>>& weights) {
  for (const OwnedRange& range : state.ranges) {
    if (range.kind != kWeights) continue;
    std::vector<float>& whole = weights[range.name];
    whole.resize(static_cast<std::size_t>(range.spec.elements()));
    std::memcpy(whole.data() + range.first, range.bytes.data(), range.bytes.size());
  }
}

}  // namespace

MaxTextFixture::MaxTextFixture(const std::string& name) : directory_(find_fixtures("maxtext/" + name).front()) {
  std::ifstream(directory_ / "metrics.json") >> metrics_;
  shape_ = read_hf_config(directory_);
}

std::vector<std::string> MaxTextFixture::names() {
  std::vector<std::string> names;
  for (const auto& path : find_fixtures("maxtext/train_*")) names.push_back(path.filename().string());
  return names;
}

TrainedRun MaxTextFixture::train(const FixtureTraining& training) const {
  const LayerAttentionTypes attention = layer_attention_types(shape_.layer_windows);
  DatasetOptions data;
  data.type = "batches";
  data.train_files = {(directory_ / "batches.safetensors").string()};
  data.sequence_length = 128;
  data.vocab_size = shape_.vocab_size;
  BatchProvider provider(open_dataset(data, Split::train), 0, kRows,
                         {.attention_types = attention.types, .context_parallelism = training.mesh[2]});
  const std::unique_ptr<WeightSource> initial = open_weights(directory_);
  ThreadTransport transport{Mesh(training.mesh)};
  TrainedRun run;
  std::mutex mutex;
  const auto program = [&](int device) {
    const std::unique_ptr<Communicator> communicator = transport.communicator(device);
    const std::unique_ptr<Engine> made =
        training.make_engine ? training.make_engine(*communicator)
                             : std::make_unique<CpuEngine>(CpuEngineOptions{.threads = 1}, *communicator);
    Engine& engine = *made;
    ParameterShards parameters(engine, model_layout(shape_, engine.mesh(), engine.device()));
    load_weights(*initial, parameters);
    Optimizer optimizer(parameters, optimizer_options(metrics_.at("optimizer")));
    Decoder decoder(engine, shape_, attention.of_layer, {.remat = remat_policy(training.remat)});
    TrainStep step(decoder, parameters, optimizer);
    const std::int64_t steps = metrics_.at("steps");
    for (std::int64_t i = 0; i < steps; ++i) {
      const auto planned = provider.get(i);
      ASSERT_NE(planned, nullptr);
      const auto micro_batch = [&](int m) {
        return make_device_batch(engine, planned->plan, planned->rows,
                                 device_rows(engine.mesh(), device, kRows, training.micro_batches, m));
      };
      const StepOutput output = step.run(i, metrics_.at("learning_rate").at(static_cast<std::size_t>(i)),
                                         training.micro_batches, micro_batch, planned->total_weights);
      if (device != 0) continue;
      run.losses.push_back(output.loss);
      run.norms.push_back(output.gradient_norm);
      run.weights.push_back(planned->total_weights);
    }
    const DeviceState state = device_state(parameters, optimizer);
    const std::lock_guard lock(mutex);
    keep_weights(state, run.final_weights);
  };
  run_devices(transport.local_devices(), program,
              [&](int device, const std::string& reason) { transport.abort(device, reason); });
  return run;
}

void MaxTextFixture::expect_matches(const TrainedRun& run, const std::string& losses, const std::string& norms) const {
  const std::vector<double> expected = metrics_.at(losses);
  ASSERT_EQ(run.losses.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(run.losses[i], expected[i], 1e-5) << "loss of step " << i;
    const double norm = metrics_.at(norms).at(i);
    EXPECT_NEAR(run.norms[i], norm, 1e-5 * norm) << "gradient norm of step " << i;
    EXPECT_EQ(run.weights[i], metrics_.at("total_weights").at(i).get<double>()) << "weights of step " << i;
  }
  const SafetensorsFile final_weights(directory_ / "final.safetensors");
  EXPECT_EQ(run.final_weights.size(), final_weights.entries().size());
  for (const auto& [name, values] : run.final_weights) {
    EXPECT_LE(max_abs_difference(values, read_as_float(final_weights, name)), 2e-5) << name;
  }
}

}  // namespace maxtext::testing
