// Writing a directory that Hugging Face's transformers load with from_pretrained.
#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/file_layer.h"
#include "checkpoint/weight_source.h"

namespace maxtext {

struct ExportOptions {
  DType dtype = DType::float32;  // or bfloat16, float16; rounding is to the nearest even

  /// A file takes tensors, in the order of their names, while they fit; a larger tensor has a file of its own. One file
  /// in all is called model.safetensors; several are numbered and have an index. transformers' default is 5 GB.
  std::int64_t max_shard_bytes = 5'000'000'000;
};

/// Writes `weights` and its config.json (with the new dtype) to `directory`, which must not exist or be empty. Tensors
/// are streamed: memory is one block of 4 MiB. Atomic: written beside, synced, renamed. Throws Error when the directory
/// holds something, the source has no config, or the disk is full; nothing is left behind then.
void export_hf_directory(const WeightSource& weights, const std::filesystem::path& directory,
                         const ExportOptions& options, FileLayer& files);

}  // namespace maxtext
