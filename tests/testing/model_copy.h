// Models on disk that a test may change.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensor/shape.h"

namespace maxtext::testing {

/// Copies the fixture hf/models/NAME to `folder`/NAME, replacing what is there, and returns that.
std::filesystem::path copy_model(const std::string& name, const std::filesystem::path& folder);

/// Merges `changes` into a file of JSON, which may be missing; a null removes its key.
void change_json(const std::filesystem::path& file, const nlohmann::json& changes);

struct OwnedTensor {
  std::string name;
  TensorSpec spec;
  std::vector<std::byte> bytes;
};

/// All tensors of a safetensors file, in the order of their bytes.
std::vector<OwnedTensor> read_tensors(const std::filesystem::path& file);
void write_tensors(const std::filesystem::path& file, const std::vector<OwnedTensor>& tensors);

}  // namespace maxtext::testing
