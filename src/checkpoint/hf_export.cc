#include "checkpoint/hf_export.h"

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/half.h"
#include "tensor/safetensors.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kBlockElements = std::int64_t{1} << 20;

std::vector<NamedSpec> target_specs(const WeightSource& weights, DType dtype) {
  std::vector<NamedSpec> specs;
  for (const std::string& name : weights.names()) specs.push_back({name, {weights.spec(name).shape, dtype}});
  return specs;
}

std::vector<std::vector<NamedSpec>> split_into_shards(const std::vector<NamedSpec>& specs, std::int64_t max_bytes) {
  std::vector<std::vector<NamedSpec>> shards(1);
  std::int64_t bytes = 0;
  for (const NamedSpec& tensor : specs) {
    if (!shards.back().empty() && bytes + tensor.spec.bytes() > max_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += tensor.spec.bytes();
    shards.back().push_back(tensor);
  }
  return shards;
}

std::string shard_name(std::size_t shard, std::size_t shards) {
  if (shards == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
}

void stream_tensor(const WeightSource& weights, const NamedSpec& tensor, OutputFile& file) {
  std::vector<float> floats;
  std::vector<std::byte> bytes;
  const std::int64_t elements = tensor.spec.elements();
  for (std::int64_t first = 0; first < elements; first += kBlockElements) {
    floats.resize(static_cast<std::size_t>(std::min(kBlockElements, elements - first)));
    bytes.resize(floats.size() * static_cast<std::size_t>(dtype_size(tensor.spec.dtype)));
    weights.read_range_as_float(tensor.name, first, floats);
    convert_from_float(floats, tensor.spec.dtype, bytes);
    file.write(bytes);
  }
}

void write_shard(const WeightSource& weights, const std::vector<NamedSpec>& shard, const fs::path& path,
                 FileLayer& files) {
  const std::unique_ptr<OutputFile> file = files.create_file(path);
  // transformers refuses a file that does not say which framework it is from.
  const std::string header = safetensors_header(shard, {{"format", "pt"}});
  file->write(std::as_bytes(std::span(header)));
  for (const NamedSpec& tensor : shard) stream_tensor(weights, tensor, *file);
  file->finish();
}

void write_json(const json& value, const fs::path& path, FileLayer& files) {
  const std::string text = value.dump(2) + "\n";
  write_whole_file(files, path, std::as_bytes(std::span(text)));
}

json index_of(const std::vector<std::vector<NamedSpec>>& shards) {
  json map = json::object();
  std::int64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const NamedSpec& tensor : shards[i]) {
      map[tensor.name] = shard_name(i, shards.size());
      total += tensor.spec.bytes();
    }
  }
  return {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
}

/// transformers 5 calls the key "dtype", earlier ones "torch_dtype"; each ignores the other.
json config_with_dtype(json config, DType dtype) {
  if (!config.is_object() || config.empty()) fail("the weights come without a config.json, which an export needs");
  const bool new_form = config.contains("dtype");
  if (new_form) config["dtype"] = dtype_name(dtype);
  if (!new_form || config.contains("torch_dtype")) config["torch_dtype"] = dtype_name(dtype);
  return config;
}

void remove_quietly(const fs::path& temporary) {
  std::error_code ignored;
  fs::remove_all(temporary, ignored);
}

/// The temporary folder is gone when its user reads of it.
std::string with_target_name(std::string message, const std::string& temporary, const std::string& target) {
  for (std::size_t at = 0; (at = message.find(temporary, at)) != std::string::npos; at += target.size()) {
    message.replace(at, temporary.size(), target);
  }
  return message;
}

void check_target(const fs::path& directory) {
  if (!fs::exists(directory)) return;
  if (!fs::is_directory(directory) || !fs::is_empty(directory)) {
    fail("{}: exists already; an export needs a new or an empty directory", directory.string());
  }
}

}  // namespace

void export_hf_directory(const WeightSource& weights, const fs::path& directory, const ExportOptions& options,
                         FileLayer& files) {
  const fs::path target = fs::absolute(directory / "x").lexically_normal().parent_path();
  check_target(target);
  const json config = config_with_dtype(weights.hf_config(), options.dtype);
  const auto shards = split_into_shards(target_specs(weights, options.dtype), options.max_shard_bytes);
  const fs::path temporary = target.string() + ".maxtext-tmp";
  try {
    files.remove_tree(temporary);
    create_directories(files, temporary);
    for (std::size_t i = 0; i < shards.size(); ++i) {
      write_shard(weights, shards[i], temporary / shard_name(i, shards.size()), files);
    }
    if (shards.size() > 1) write_json(index_of(shards), temporary / "model.safetensors.index.json", files);
    write_json(config, temporary / "config.json", files);
    files.sync_directory(temporary);
    files.rename(temporary, target);
    files.sync_directory(target.parent_path());
  } catch (const Error& error) {
    remove_quietly(temporary);
    throw Error(with_target_name(error.what(), temporary.string(), target.string()));
  } catch (const std::exception&) {
    remove_quietly(temporary);
    throw;
  }
}

}  // namespace maxtext
