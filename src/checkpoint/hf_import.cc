#include "checkpoint/hf_import.h"

#include "base/error.h"
#include "checkpoint/hf_tensors.h"
#include "checkpoint/reader.h"

namespace maxtext {

SaveResult import_hf_directory(const std::filesystem::path& source, const SaveOptions& options) {
  CheckpointInfo info;
  const HfTensors set(source);
  info.hf_config = set.config();
  if (info.hf_config.empty()) fail("{}: config.json is missing", source.string());
  DeviceState state;
  for (const std::string& name : set.names()) {
    const SafetensorsEntry& entry = set.at(name);
    state.ranges.push_back({std::string(kWeights), name, entry.spec, 0, entry.spec.elements(), entry.bytes});
  }
  return save_checkpoint(options, info, {state});
}

SaveResult save_weights_only(const std::filesystem::path& checkpoint, const SaveOptions& options) {
  const CheckpointReader reader(checkpoint);
  CheckpointInfo info;
  info.hf_config = reader.info().hf_config;
  info.config = reader.info().config;
  DeviceState state;
  for (const std::string& name : reader.names(kWeights)) {
    for (const CheckpointReader::Part& part : reader.parts(kWeights, name)) {
      state.ranges.push_back(
          {std::string(kWeights), name, reader.spec(kWeights, name), part.first, part.count, part.bytes, part.block});
    }
  }
  return save_checkpoint(options, info, {state});
}

}  // namespace maxtext
