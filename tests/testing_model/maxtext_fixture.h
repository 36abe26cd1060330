// Fixtures maxtext/train_*: twenty steps of MaxText's own training, to be done again by an engine.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/model_shape.h"
#include "mesh/communicator.h"
#include "ops/engine.h"

namespace maxtext::testing {

struct FixtureTraining {
  std::array<int, 4> mesh = {1, 1, 1, 1};
  int micro_batches = 1;
  std::string remat = "none";
  /// The engine of a device; the cpu engine where it is not given.
  std::function<std::unique_ptr<Engine>(Communicator& communicator)> make_engine;
};

struct TrainedRun {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<double> weights;
  std::map<std::string, std::vector<float>> final_weights;
};

class MaxTextFixture {
 public:
  /// "train_packed". Throws Error where the fixture is not there.
  explicit MaxTextFixture(const std::string& name);

  /// Those there are, sorted.
  static std::vector<std::string> names();

  const std::filesystem::path& directory() const { return directory_; }
  const ModelShape& shape() const { return shape_; }

  /// All its steps, from its initial weights, on its batches.
  TrainedRun train(const FixtureTraining& training) const;

  /// Losses and norms of the gradients, kept under these names in metrics.json, are the run's within 1e-5 (relative for
  /// norms), and so are the final weights within 2e-5.
  void expect_matches(const TrainedRun& run, const std::string& losses, const std::string& norms) const;

 private:
  std::filesystem::path directory_;
  nlohmann::json metrics_;
  ModelShape shape_;
};

}  // namespace maxtext::testing
