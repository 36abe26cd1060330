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

  /// Reads all weights whose files have checksums and throws DamagedCheckpoint for one that does not fit. What was
  /// verified is not read for that again.
  virtual void verify() const {}

  /// The text model's config.json; an empty object when the source has none.
  virtual nlohmann::json hf_config() const = 0;
};

/// `path` is a directory with model.safetensors or its index (and config.json; of a multimodal model the text model's
/// tensors, under their names in a text model), one .safetensors file, a checkpoint
/// (.../checkpoints/<step>, also with /items as MaxText's load_parameters_path has it), or a run directory, whose
/// newest checkpoint is taken. Throws ConfigError, saying what was expected there, when it is none of these, and Error
/// for files that are damaged.
std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path);

/// Weights, and where they were found.
struct FoundWeights {
  std::filesystem::path path;       ///< as given
  std::filesystem::path directory;  ///< which is read: the same, or of a run directory its newest complete checkpoint
  std::unique_ptr<WeightSource> weights;
  std::vector<std::string> notes;  ///< notes_on_choice
};

/// open_weights, with what to tell whoever gave `path`. Throws as that does; for a damaged checkpoint of a run
/// directory DamagedCheckpoint that says what to delete to take the one before it.
FoundWeights find_weights(const std::filesystem::path& path);

/// WeightSource::verify, with errors as those of find_weights.
void verify_weights(const FoundWeights& found);

/// Which checkpoint of a run directory is taken, and later ones that are not, a line each; nothing when `path` is no
/// run directory. `directory` is find_checkpoint(path).
std::vector<std::string> notes_on_choice(const std::filesystem::path& path, const std::filesystem::path& directory);

/// True when open_weights would look for a checkpoint there, not for Hugging Face's files.
bool holds_checkpoint(const std::filesystem::path& path);

/// The .../checkpoints/<step> that `path` means: itself, the one whose items it is, or the newest of a run directory.
/// `path` as it is when there is no checkpoint. Throws ConfigError for a run directory without a complete one, and for
/// the folder of a run's checkpoints.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

}  // namespace maxtext
