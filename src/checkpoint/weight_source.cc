#include "checkpoint/weight_source.h"

#include <fstream>
#include <utility>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/layout.h"
#include "checkpoint/reader.h"
#include "tensor/half.h"
#include "tensor/safetensors.h"

namespace maxtext {
namespace {

using nlohmann::json;

class CheckpointWeights final : public WeightSource {
 public:
  explicit CheckpointWeights(const std::filesystem::path& path) : reader_(path) {}
  std::vector<std::string> names() const override { return reader_.names(kWeights); }
  bool contains(std::string_view name) const override { return reader_.contains(kWeights, name); }
  TensorSpec spec(std::string_view name) const override { return reader_.spec(kWeights, name); }
  void read_range_as_float(std::string_view name, std::int64_t first, std::span<float> out) const override {
    reader_.read_range_as_float(kWeights, name, first, out);
  }
  json hf_config() const override { return reader_.info().hf_config; }

 private:
  CheckpointReader reader_;
};

class SafetensorsWeights final : public WeightSource {
 public:
  explicit SafetensorsWeights(const std::filesystem::path& path) : set_(path) {}
  std::vector<std::string> names() const override { return set_.names(); }
  bool contains(std::string_view name) const override { return set_.contains(name); }
  TensorSpec spec(std::string_view name) const override { return set_.at(name).spec; }

  void read_range_as_float(std::string_view name, std::int64_t first, std::span<float> out) const override {
    const SafetensorsEntry& entry = set_.at(name);
    const std::int64_t elements = entry.spec.elements();
    const auto count = static_cast<std::int64_t>(out.size());
    if (first < 0 || count > elements || first > elements - count) {
      fail("{}: tensor '{}': the range of {} elements from {} is not within {}", set_.file_of(name).path().string(),
           name, count, first, to_string(entry.spec));
    }
    const auto size = static_cast<std::size_t>(dtype_size(entry.spec.dtype));
    convert_to_float(entry.bytes.subspan(static_cast<std::size_t>(first) * size, out.size() * size), entry.spec.dtype,
                     out);
  }

  json hf_config() const override {
    const std::filesystem::path path = set_.path() / "config.json";
    std::ifstream stream(path, std::ios::binary);
    if (!stream) return json::object();
    try {
      return json::parse(stream);
    } catch (const json::exception& error) {
      fail("{}: not valid JSON: {}", path.string(), error.what());
    }
  }

 private:
  SafetensorsSet set_;
};

}  // namespace

bool holds_checkpoint(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  return fs::exists(path / kItems / kManifest) || fs::exists(path / kManifest) ||
         fs::is_directory(checkpoints_directory(path));
}

std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  if (fs::exists(path / kItems / kManifest)) return std::make_unique<CheckpointWeights>(path);
  if (fs::exists(path / kManifest)) return std::make_unique<CheckpointWeights>(fs::canonical(path).parent_path());
  if (fs::is_directory(checkpoints_directory(path))) {
    const fs::path latest = latest_checkpoint(path);
    if (latest.empty()) fail("{}: a run directory without a complete checkpoint", path.string());
    return std::make_unique<CheckpointWeights>(latest);
  }
  return std::make_unique<SafetensorsWeights>(path);
}

}  // namespace maxtext
