// A checkpoint is logical: tensors by kind and Hugging Face name, stored as element ranges, whoever owned them. It
// knows no mesh, so it can be read on any other.
//
//   <run_directory>/checkpoints/<step>/items/weights-00000-of-00004.safetensors   one file per kind and device
//                                     /items/manifest.json                        step, tensors, files with checksums
//                                     /COMMITTED                                  written last: checksum of the
//                                     manifest
//
// A tensor that one device owns whole stands in its file under its own name and shape; a range of it stands there as
// "name@first+count", a vector, and a range of a block of its columns as "name@first+count:begin+columns". A save
// writes to <step>.tmp, syncs all, renames, and writes the marker; only a step with a valid marker is ever read. An old
// checkpoint is renamed to <step>.trash before it is removed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/column_block.h"
#include "checkpoint/file_layer.h"
#include "tensor/shape.h"

namespace maxtext {

/// Kinds of state. A kind is a file name's prefix: letters, digits and '_' only.
inline constexpr std::string_view kWeights = "weights";
inline constexpr std::string_view kFirstMoment = "first_moment";
inline constexpr std::string_view kSecondMoment = "second_moment";

/// Elements [first, first + count) of the flattened tensor or of a flattened block of its columns, and where they are
/// in memory now.
struct OwnedRange {
  std::string kind;
  std::string name;
  TensorSpec spec;  // of the whole tensor
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::span<const std::byte> bytes;
  ColumnBlock block = {};
};

/// What one device of the mesh owns. Over all devices each element of each tensor is owned exactly once.
struct DeviceState {
  int device = 0;
  std::vector<OwnedRange> ranges;
};

/// What is saved beside tensors.
struct CheckpointInfo {
  std::int64_t step = 0;
  nlohmann::json cursor = nlohmann::json::object();     // the data loader's position
  nlohmann::json trainer = nlohmann::json::object();    // seed, counters: whatever the trainer continues from
  nlohmann::json config = nlohmann::json::object();     // the resolved configuration, for the record
  nlohmann::json hf_config = nlohmann::json::object();  // config.json of the same model for Hugging Face
};

struct SaveOptions {
  std::filesystem::path run_directory;  // <base_output_directory>/<run_name>

  /// How many complete checkpoints stay, the newest; 0 keeps all.
  int keep = 0;

  /// Devices of the mesh, over all processes.
  int device_count = 1;

  /// Process 0 coordinates. All processes see one file system.
  int process_index = 0;
  int process_count = 1;

  /// With several processes: a barrier that tells each whether all of them called it with true. It is called from the
  /// saving thread, three times per save on every process, and may wait for as long as the slowest process saves; the
  /// trainer's (train/save_agreement.h) hands it to the device's thread, which communicates. Unused otherwise.
  std::function<bool(bool)> all_succeeded;

  std::shared_ptr<FileLayer> files = std::make_shared<PosixFileLayer>();
};

struct SaveResult {
  std::int64_t step = 0;
  std::filesystem::path directory;
  std::int64_t bytes = 0;  // of tensors, written by this process
  double seconds = 0;
  std::string error;    // empty when the checkpoint is complete and durable
  std::string warning;  // what went wrong after that: an old checkpoint that stays, processes that did not agree
  bool ok() const { return error.empty(); }
};

/// Writes a checkpoint of `info.step`; returns once it is complete and durable. `data_written` is called once the
/// memory of the ranges is no longer read, if it came so far; the rest (syncing, renaming) takes place after it.
/// Memory: none beyond headers, the ranges are written from where they are. Throws Error, with the temporary folder
/// removed, when a range is not within its tensor or block, an element is owned twice or by nobody, the disk is full,
/// another process failed, or a complete checkpoint of this step exists. A crash at any point leaves the earlier
/// checkpoints as they were. Once the marker is durable the new checkpoint stays, whatever the other processes answer;
/// earlier ones are removed only after all have agreed.
SaveResult save_checkpoint(const SaveOptions& options, const CheckpointInfo& info,
                           const std::vector<DeviceState>& devices, const std::function<void()>& data_written = {});

/// Steps with a complete checkpoint, ascending; leftovers of crashed saves are not among them.
std::vector<std::int64_t> complete_steps(const std::filesystem::path& run_directory);

/// <run_directory>/checkpoints/<step>, complete or not.
std::filesystem::path step_directory(const std::filesystem::path& run_directory, std::int64_t step);

/// The directory of the newest complete checkpoint; empty when there is none.
std::filesystem::path latest_checkpoint(const std::filesystem::path& run_directory);

/// A checkpoint that is not read, and why: "COMMITTED is missing".
struct IncompleteCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path directory;
  std::string reason;
};

/// Checkpoints of steps after `newest_complete` (-1: all) that are not complete, ascending: folders without a valid
/// marker, and what a save that was cut short left under <step>.tmp.
std::vector<IncompleteCheckpoint> incomplete_checkpoints(const std::filesystem::path& run_directory,
                                                         std::int64_t newest_complete);

/// "note: DIRECTORY is incomplete (REASON), passed over" for each of incomplete_checkpoints: later than the one that is
/// read, they are where people expect it to be read.
std::vector<std::string> notes_on_incomplete(const std::filesystem::path& run_directory, std::int64_t newest_complete);

/// True when the marker is there and is that of the manifest.
bool is_complete_checkpoint(const std::filesystem::path& step_directory);

}  // namespace maxtext
