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

  /// The tensor's bytes, row-major in its own dtype, where they lie in one piece in a mapped file: pages come as they
  /// are touched, and the pointer keeps the file open. They need not be aligned to the dtype. Null for a tensor that is
  /// stored in parts. Throws Error when there is no such tensor, or the file is corrupt.
  virtual std::shared_ptr<const std::byte> mapped(std::string_view name) const = 0;

  /// The text model's config.json; an empty object when the source has none.
  virtual nlohmann::json hf_config() const = 0;
};

/// `path` is a directory with model.safetensors or its index (and config.json; of a multimodal model the text model's
/// tensors, under their names in a text model), one .safetensors file, a checkpoint
/// (.../checkpoints/<step>, also with /items as MaxText's load_parameters_path has it), or a run directory, whose
/// newest checkpoint is taken. Throws ConfigError, saying what was expected there, when it is none of these, and Error
/// for files that are damaged.
std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path);

/// True when open_weights would look for a checkpoint there, not for Hugging Face's files.
bool holds_checkpoint(const std::filesystem::path& path);

/// The .../checkpoints/<step> that `path` means: itself, the one whose items it is, or the newest of a run directory.
/// `path` as it is when there is no checkpoint. Throws ConfigError for a run directory without a complete one, and for
/// the folder of a run's checkpoints.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

}  // namespace maxtext
