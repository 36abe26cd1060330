#include <algorithm>
#include <cctype>
#include <chrono>
#include <exception>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/seconds_since.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/range_file.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;

void check_kind(const std::string& kind) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  if (kind.empty() || !std::all_of(kind.begin(), kind.end(), allowed)) {
    fail("the kind of state '{}' is not made of letters, digits and '_'", kind);
  }
}

std::string records_file_name(int process) { return fmt::format("process-{:05}.json", process); }

/// One save of one process, in three phases between which the processes agree that all succeeded:
/// prepare (coordinator) | write and sync own files (everybody) | manifest, rename, marker (coordinator); then the
/// coordinator removes old checkpoints.
class Save {
 public:
  Save(const SaveOptions& options, const CheckpointInfo& info)
      : options_(options),
        files_(*options.files),
        info_(info),
        temporary_(temporary_directory(options.run_directory, info.step)),
        final_(step_directory(options.run_directory, info.step)) {
    result_.step = info.step;
    result_.directory = final_;
  }

  SaveResult run(const std::vector<DeviceState>& devices, const std::function<void()>& data_written) {
    const auto start = std::chrono::steady_clock::now();
    phase([&] { prepare(); });
    phase([&] {
      write_files(devices);
      if (data_written) data_written();
      finish_files();
    });
    const bool agreed = phase([&] { commit(); });
    if (agreed && is_coordinator()) remove_old();
    result_.seconds = seconds_since(start);
    return result_;
  }

 private:
  bool is_coordinator() const { return options_.process_index == 0; }

  /// Does this process's part of a phase, then learns how the others fared. A failure anywhere ends the save
  /// everywhere, except that a durable marker cannot be taken back: then false is returned, and the checkpoint stays.
  bool phase(const std::function<void()>& work) {
    std::optional<std::string> error;
    try {
      work();
    } catch (const std::exception& failure) {
      error = failure.what();
    }
    const bool together = options_.process_count > 1;
    const bool ok = together ? options_.all_succeeded(!error) : !error;
    if (ok) return true;
    if (committed_) {
      result_.warning = "it is complete, but the other processes did not agree on it; older checkpoints stay";
      return false;
    }
    writers_.clear();
    if (is_coordinator()) clean_up();
    fail("step {} was not saved: {}", info_.step, error.value_or("another process failed"));
  }

  void prepare() {
    if (!is_coordinator()) return;
    if (is_complete_checkpoint(final_)) fail("{} is a complete checkpoint already", final_.string());
    created_ = true;
    create_directories(files_, checkpoints_directory(options_.run_directory));
    remove_leftovers();
    if (fs::exists(final_)) discard(final_, info_.step);
    create_directories(files_, temporary_ / kItems);
  }

  /// What crashed saves and removals left.
  void remove_leftovers() {
    for (const auto& entry : fs::directory_iterator(checkpoints_directory(options_.run_directory))) {
      const std::string name = entry.path().filename().string();
      if (parse_step(name, ".tmp") || parse_step(name, ".trash")) files_.remove_tree(entry.path());
    }
  }

  /// A checkpoint disappears as a whole, by the rename, before its files are removed one by one.
  void discard(const fs::path& directory, std::int64_t step) {
    const fs::path trash = trash_directory(options_.run_directory, step);
    files_.remove_tree(trash);
    files_.rename(directory, trash);
    files_.sync_directory(trash.parent_path());
    files_.remove_tree(trash);
  }

  void write_files(const std::vector<DeviceState>& devices) {
    for (const DeviceState& device : devices) {
      std::map<std::string, std::vector<const OwnedRange*>> kinds;
      for (const OwnedRange& range : device.ranges) {
        check_kind(range.kind);
        if (range.count > 0 || range.spec.elements() == 0) kinds[range.kind].push_back(&range);
      }
      for (const auto& [kind, ranges] : kinds) {
        const std::string name = range_file_name(kind, device.device, options_.device_count);
        writers_.emplace_back(files_, temporary_ / kItems, name, kind, ranges).write();
        for (const OwnedRange* range : ranges) result_.bytes += static_cast<std::int64_t>(range->bytes.size());
      }
    }
  }

  void finish_files() {
    for (RangeFileWriter& writer : writers_) records_.push_back(writer.finish());
    writers_.clear();
    if (is_coordinator()) return;
    const std::string text = records_to_text(records_);
    write_whole_file(files_, temporary_ / kItems / records_file_name(options_.process_index),
                     std::as_bytes(std::span(text)));
    files_.sync_directory(temporary_ / kItems);
  }

  void commit() {
    if (!is_coordinator()) return;
    collect_records();
    const std::string manifest = to_text(make_manifest(info_, records_));
    write_whole_file(files_, temporary_ / kItems / kManifest, std::as_bytes(std::span(manifest)));
    files_.sync_directory(temporary_ / kItems);
    files_.rename(temporary_, final_);
    files_.sync_directory(final_.parent_path());
    const std::string marker = checksum_text(std::as_bytes(std::span(manifest)));
    write_whole_file(files_, final_ / kMarker, std::as_bytes(std::span(marker)));
    files_.sync_directory(final_);
    committed_ = true;
  }

  void collect_records() {
    for (int process = 1; process < options_.process_count; ++process) {
      const fs::path path = temporary_ / kItems / records_file_name(process);
      const std::vector<FileRecord> records = read_records(path);
      records_.insert(records_.end(), records.begin(), records.end());
      files_.remove_tree(path);
    }
  }

  /// The new checkpoint is complete and agreed on by now, so failing here must not undo it.
  void remove_old() {
    if (options_.keep <= 0) return;
    std::vector<std::int64_t> steps = complete_steps(options_.run_directory);
    std::erase(steps, info_.step);
    steps.resize(steps.size() - std::min(steps.size(), static_cast<std::size_t>(options_.keep - 1)));
    try {
      for (const std::int64_t step : steps) discard(step_directory(options_.run_directory, step), step);
    } catch (const std::exception& error) {
      result_.warning = fmt::format("an old checkpoint was not removed: {}", error.what());
    }
  }

  /// Best effort: what stays is not loadable and is removed by the next save.
  void clean_up() {
    if (!created_) return;
    try {
      files_.remove_tree(temporary_);
      if (fs::exists(final_)) discard(final_, info_.step);
    } catch (const std::exception&) {
    }
  }

  const SaveOptions& options_;
  FileLayer& files_;
  const CheckpointInfo& info_;
  const fs::path temporary_;
  const fs::path final_;
  bool created_ = false;
  bool committed_ = false;
  std::vector<RangeFileWriter> writers_;
  std::vector<FileRecord> records_;
  SaveResult result_;
};

}  // namespace

SaveResult save_checkpoint(const SaveOptions& options, const CheckpointInfo& info,
                           const std::vector<DeviceState>& devices, const std::function<void()>& data_written) {
  if (options.process_count > 1 && !options.all_succeeded) {
    fail("saving from {} processes needs a way for them to agree", options.process_count);
  }
  return Save(options, info).run(devices, data_written);
}

}  // namespace maxtext
