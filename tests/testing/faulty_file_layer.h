// A file layer on real files that fails, or stops as in a crash, at a chosen call.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/file_layer.h"

namespace maxtext::testing {

enum class Fault {
  fail_once,    // one call throws Error (a write after half of its bytes), the next ones work
  disk_full,    // from that call on everything that takes space throws Error; renaming and removing work
  crash_keeps,  // the call and all later ones throw Crashed; what was done before it is on disk
  crash_loses,  // the same, and what was not synced is gone: torn contents, undone creations and renames. Removals
                // stay done, since nothing promises an order
};

/// Thrown by a layer that has crashed. Not a std::exception, so that no handler of failures takes it for one.
struct Crashed {};

class FaultyFileLayer final : public FileLayer {
 public:
  /// The fault happens at the at_call-th call (from 1, writes and finishes included), or never if there are fewer.
  FaultyFileLayer(Fault fault, int at_call) : fault_(fault), at_call_(at_call) {}

  void create_directory(const std::filesystem::path& path) override;
  std::unique_ptr<OutputFile> create_file(const std::filesystem::path& path) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void sync_directory(const std::filesystem::path& path) override;
  void remove_tree(const std::filesystem::path& path) override;

  /// A crash between calls: drops what was not synced. Nothing works any more.
  void lose_power();

  bool reached() const { return calls_ >= at_call_; }
  bool crashed() const { return crashed_; }

 private:
  friend class FaultyOutputFile;
  struct Unsynced {
    enum class What { contents, creation, renaming } what;
    std::filesystem::path path;  // the new name
    std::filesystem::path from;
  };

  /// Counts the call; throws when it is to fail. `before_crash` leaves the half-done work behind.
  template <typename HalfDone>
  void enter(bool takes_space, const std::filesystem::path& path, HalfDone half_done);
  void lose_unsynced();
  void make_durable(const std::filesystem::path& directory);
  void note(Unsynced entry) { unsynced_.push_back(std::move(entry)); }

  PosixFileLayer files_;
  Fault fault_;
  int at_call_;
  int calls_ = 0;
  bool crashed_ = false;
  std::vector<Unsynced> unsynced_;
};

}  // namespace maxtext::testing
