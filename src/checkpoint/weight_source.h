// Weights to start from, wherever they are: a Hugging Face directory or file, or a checkpoint of ours.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/shape.h"

namespace maxtext {

/// Tensors by Hugging Face name. Reading maps and copies, so memory is what the caller asks for; safe from several
/// threads.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  /// Sorted.
  virtual std::vector<std::string> names() const = 0;
  virtual bool contains(std::string_view name) const = 0;

  /// As stored: float32, bfloat16 or float16. Throws Error when there is no such tensor.
  virtual TensorSpec spec(std::string_view name) const = 0;

  /// Elements [first, first + out.size()) of the flattened tensor, converted to float. Throws Error when they are not
  /// within it.
  virtual void read_range_as_float(std::string_view name, std::int64_t first, std::span<float> out) const = 0;

  /// The model's config.json; an empty object when the source has none.
  virtual nlohmann::json hf_config() const = 0;
};

/// `path` is a directory with model.safetensors or its index (and config.json), one .safetensors file, a checkpoint
/// (.../checkpoints/<step>, also with /items as MaxText's load_parameters_path has it), or a run directory, whose
/// newest checkpoint is taken. Throws Error that says what was expected there.
std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path);

/// True when open_weights would look for a checkpoint there, not for Hugging Face's files.
bool holds_checkpoint(const std::filesystem::path& path);

}  // namespace maxtext
