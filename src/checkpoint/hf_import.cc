#include "checkpoint/hf_import.h"

#include "base/error.h"
#include "checkpoint/weight_source.h"
#include "tensor/safetensors.h"

namespace maxtext {

SaveResult import_hf_directory(const std::filesystem::path& source, const SaveOptions& options) {
  CheckpointInfo info;
  info.hf_config = open_weights(source)->hf_config();
  if (info.hf_config.empty()) fail("{}: config.json is missing", source.string());
  const SafetensorsSet set(source);
  DeviceState state;
  for (const std::string& name : set.names()) {
    const SafetensorsEntry& entry = set.at(name);
    state.ranges.push_back({std::string(kWeights), name, entry.spec, 0, entry.spec.elements(), entry.bytes});
  }
  return save_checkpoint(options, info, {state});
}

}  // namespace maxtext
