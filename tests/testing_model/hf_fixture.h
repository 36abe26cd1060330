// Fixtures hf/models/*: what Hugging Face transformers computes with small models.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/weight_source.h"
#include "config/model_shape.h"
#include "data/row_batch.h"
#include "tensor/safetensors.h"

namespace maxtext::testing {

class HfFixture {
 public:
  /// "llama". Throws Error where the fixture is not there.
  explicit HfFixture(const std::string& name);

  /// Those there are, sorted.
  static std::vector<std::string> names();

  const std::filesystem::path& directory() const { return directory_; }
  const ModelShape& shape() const { return shape_; }
  const WeightSource& weights() const { return *weights_; }
  const SafetensorsFile& golden() const { return *golden_; }

  std::vector<std::int32_t> ids(const std::string& prompt) const;
  /// The ids as one document in one row.
  RowBatch batch(const std::string& prompt) const;

 private:
  std::filesystem::path directory_;
  ModelShape shape_;
  std::unique_ptr<WeightSource> weights_;
  std::unique_ptr<SafetensorsFile> golden_;
};

}  // namespace maxtext::testing
