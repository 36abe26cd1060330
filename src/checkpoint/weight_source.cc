#include "checkpoint/weight_source.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_tensors.h"
#include "checkpoint/layout.h"
#include "checkpoint/reader.h"
#include "tensor/half.h"

namespace maxtext {
namespace {

using nlohmann::json;

class CheckpointWeights final : public WeightSource {
 public:
  explicit CheckpointWeights(const std::filesystem::path& path)
      : reader_(std::make_shared<const CheckpointReader>(path)) {}
  std::vector<std::string> names() const override { return reader_->names(kWeights); }
  bool contains(std::string_view name) const override { return reader_->contains(kWeights, name); }
  TensorSpec spec(std::string_view name) const override { return reader_->spec(kWeights, name); }
  void read_range_as_float(std::string_view name, std::int64_t first, std::span<float> out) const override {
    reader_->read_range_as_float(kWeights, name, first, out);
  }
  std::shared_ptr<const std::byte> mapped(std::string_view name) const override {
    return {reader_, reader_->whole(kWeights, name).data()};
  }
  void verify() const override {
    for (const std::string& name : reader_->names(kWeights)) reader_->parts(kWeights, name);
  }
  json hf_config() const override { return reader_->info().hf_config; }

 private:
  std::shared_ptr<const CheckpointReader> reader_;
};

class SafetensorsWeights final : public WeightSource {
 public:
  explicit SafetensorsWeights(const std::filesystem::path& path) : set_(std::make_shared<const HfTensors>(path)) {}
  std::vector<std::string> names() const override { return set_->names(); }
  bool contains(std::string_view name) const override { return set_->contains(name); }
  TensorSpec spec(std::string_view name) const override { return set_->at(name).spec; }

  void read_range_as_float(std::string_view name, std::int64_t first, std::span<float> out) const override {
    const SafetensorsEntry& entry = set_->at(name);
    const std::int64_t elements = entry.spec.elements();
    const auto count = static_cast<std::int64_t>(out.size());
    if (first < 0 || count > elements || first > elements - count) {
      fail("{}: tensor '{}': the range of {} elements from {} is not within {}", set_->file_of(name).path().string(),
           name, count, first, to_string(entry.spec));
    }
    const auto size = static_cast<std::size_t>(dtype_size(entry.spec.dtype));
    convert_to_float(entry.bytes.subspan(static_cast<std::size_t>(first) * size, out.size() * size), entry.spec.dtype,
                     out);
  }

  std::shared_ptr<const std::byte> mapped(std::string_view name) const override {
    return {set_, set_->at(name).bytes.data()};
  }

  json hf_config() const override { return set_->config(); }

 private:
  std::shared_ptr<const HfTensors> set_;
};

bool is_items_or_step(const std::filesystem::path& path) {
  return std::filesystem::exists(path / kItems / kManifest) || std::filesystem::exists(path / kManifest);
}

/// .../<run_name>/checkpoints itself, one folder too deep for a run and one too high for a checkpoint.
bool is_checkpoints_folder(const std::filesystem::path& path) {
  std::error_code not_a_folder;
  const std::filesystem::path real = std::filesystem::canonical(path, not_a_folder);
  if (not_a_folder || real != checkpoints_directory(real.parent_path())) return false;
  const std::filesystem::directory_iterator entries(real, not_a_folder);
  return std::any_of(begin(entries), end(entries),
                     [](const auto& entry) { return parse_step(entry.path().filename().string()).has_value(); });
}

/// llama.cpp's format, which begins with its name.
bool is_gguf(const std::filesystem::path& file) {
  constexpr std::string_view kMagic = "GGUF";
  std::array<char, kMagic.size()> begin{};
  std::ifstream(file, std::ios::binary).read(begin.data(), begin.size());
  return std::string_view(begin.data(), begin.size()) == kMagic;
}

/// One of Hugging Face's "model-00001-of-00005.safetensors".
bool is_shard(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return name.starts_with("model-") && name.find("-of-") != std::string::npos && name.ends_with(".safetensors");
}

void refuse_gguf(const std::filesystem::path& file) {
  if (!is_gguf(file)) return;
  fail_config(
      "{}: GGUF files are not supported yet: expected a Hugging Face directory, a .safetensors file, a run directory "
      "or a checkpoint",
      file.string());
}

/// What a wrong path looks like, in contrast to files that are there and damaged.
void check_has_weights(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  if (!fs::exists(path)) fail_config("{}: does not exist", path.string());
  if (fs::is_regular_file(path)) refuse_gguf(path);
  if (!fs::is_directory(path)) return;
  if (fs::exists(path / "model.safetensors") || fs::exists(path / "model.safetensors.index.json")) return;
  std::error_code unreadable;  // then there are no weights to be found, either
  for (const fs::directory_entry& entry : fs::directory_iterator(path, unreadable)) {
    if (entry.is_regular_file(unreadable)) refuse_gguf(entry.path());
    if (is_shard(entry.path())) {
      fail_config("{}: model.safetensors.index.json, which says what is in {} and the other shards, is missing",
                  path.string(), entry.path().filename().string());
    }
  }
  fail_config(
      "{}: no weights: expected a Hugging Face directory (model.safetensors or model.safetensors.index.json), a run "
      "directory or a checkpoint",
      path.string());
}

bool is_run_directory(const std::filesystem::path& path) {
  return !std::filesystem::exists(path / kManifest) && std::filesystem::is_directory(checkpoints_directory(path));
}

/// What to do about a damaged checkpoint that was taken because it is the newest.
std::string way_around(const std::filesystem::path& path, const std::filesystem::path& directory) {
  if (!is_run_directory(path)) return "";
  const std::vector<std::int64_t> steps = complete_steps(path);
  if (steps.size() < 2) return "";
  return fmt::format("; delete {} to take the checkpoint before it, of step {}", directory.string(),
                     steps[steps.size() - 2]);
}

}  // namespace

bool holds_checkpoint(const std::filesystem::path& path) {
  return is_items_or_step(path) || std::filesystem::is_directory(checkpoints_directory(path)) ||
         is_checkpoints_folder(path);
}

std::filesystem::path find_checkpoint(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  if (fs::exists(path / kManifest)) return fs::canonical(path).parent_path();
  if (is_run_directory(path)) {
    fs::path latest = latest_checkpoint(path);
    if (latest.empty()) {
      const auto incomplete = incomplete_checkpoints(path, -1);
      fail_config(
          "{}: it is a run directory without a complete checkpoint{}", path.string(),
          incomplete.empty() ? "" : fmt::format(": of step {}, {}", incomplete.back().step, incomplete.back().reason));
    }
    return latest;
  }
  if (!is_items_or_step(path) && is_checkpoints_folder(path)) {
    fail_config("{}: it is a folder of checkpoints; give the run directory, for its newest, or {}/STEP", path.string(),
                path.lexically_normal().string());
  }
  return path;
}

std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path) {
  if (holds_checkpoint(path)) return std::make_unique<CheckpointWeights>(find_checkpoint(path));
  check_has_weights(path);
  return std::make_unique<SafetensorsWeights>(path);
}

std::vector<std::string> notes_on_choice(const std::filesystem::path& path, const std::filesystem::path& directory) {
  if (!is_run_directory(path)) return {};
  std::vector<std::string> notes = notes_on_incomplete(path, std::stoll(directory.filename().string()));
  notes.push_back(fmt::format("reading {}", directory.string()));
  return notes;
}

FoundWeights find_weights(const std::filesystem::path& path) {
  FoundWeights found;
  found.path = path;
  found.directory = holds_checkpoint(path) ? find_checkpoint(path) : path;
  found.notes = notes_on_choice(path, found.directory);
  try {
    found.weights = open_weights(found.directory);
  } catch (const DamagedCheckpoint& error) {
    throw DamagedCheckpoint(error.what() + way_around(path, found.directory));
  }
  return found;
}

void verify_weights(const FoundWeights& found) {
  try {
    found.weights->verify();
  } catch (const DamagedCheckpoint& error) {
    throw DamagedCheckpoint(error.what() + way_around(found.path, found.directory));
  }
}

}  // namespace maxtext
