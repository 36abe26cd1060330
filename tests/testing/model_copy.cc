#include "testing/model_copy.h"

#include "tensor/safetensors.h"
#include "testing/fixtures.h"
#include "testing/temporary_directory.h"

namespace maxtext::testing {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path copy_model(const std::string& name, const fs::path& folder) {
  const fs::path target = folder / name;
  fs::remove_all(target);
  fs::copy(find_fixtures("hf/models/" + name).front(), target);
  return target;
}

void change_json(const fs::path& file, const json& changes) {
  json value = fs::exists(file) ? json::parse(read_file(file)) : json::object();
  value.merge_patch(changes);
  write_file(file, value.dump());
}

std::vector<OwnedTensor> read_tensors(const fs::path& file) {
  const SafetensorsFile stored(file);
  std::vector<OwnedTensor> tensors;
  for (const SafetensorsEntry& entry : stored.entries()) {
    tensors.push_back({entry.name, entry.spec, {entry.bytes.begin(), entry.bytes.end()}});
  }
  return tensors;
}

void write_tensors(const fs::path& file, const std::vector<OwnedTensor>& tensors) {
  std::vector<NamedBytes> named;
  for (const OwnedTensor& tensor : tensors) named.push_back({tensor.name, tensor.spec, tensor.bytes});
  write_safetensors(file, named);
}

}  // namespace maxtext::testing
