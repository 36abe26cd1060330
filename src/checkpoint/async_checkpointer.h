// Saving beside training. A background thread writes the tensors from where they are, without a copy, so the memory of
// a device does not grow; in return nobody may change them before they are written.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace maxtext {

/// The contract of a training loop:
///
///     checkpointer.save(info, devices);    // returns at once; the ranges' memory must stay valid and unchanged ...
///     forward and backward of the next step
///     checkpointer.wait_before_update();   // ... until this returns
///     optimizer update
///
/// Cost: forward and backward overlap with writing; the update waits for what is then left of handing all bytes to the
/// operating system (a copy into the page cache, about 1 GB/s; syncing to disk goes on behind it). A step longer than
/// that is not delayed, except for the core that the writer uses meanwhile.
class AsyncCheckpointer {
 public:
  /// `on_finished` is called from the background thread for each save, failed ones too: the place to log; it
  /// must not throw. A failed save leaves training, the earlier checkpoints and later saves alone.
  ///
  /// The thread is started here, once: where the system allows no more threads, Error is thrown before training starts.
  /// Failing to start one later would be a failure of this process alone, which the others could not learn of.
  explicit AsyncCheckpointer(SaveOptions options, std::function<void(const SaveResult&)> on_finished = {});

  /// Waits for the save under way.
  ~AsyncCheckpointer();
  AsyncCheckpointer(const AsyncCheckpointer&) = delete;
  AsyncCheckpointer& operator=(const AsyncCheckpointer&) = delete;

  /// Starts a save, after the previous one, if any, has wholly finished. Called by one thread.
  void save(CheckpointInfo info, std::vector<DeviceState> devices);

  /// Returns once the memory given to the last save is no longer read: at once when there is none under way. Any number
  /// of threads may call it.
  void wait_before_update();

  /// Whether wait_before_update would wait.
  bool data_in_use() const;

  /// Waits until the last save has wholly finished; its result, or nothing when there was none.
  std::optional<SaveResult> wait();

  bool busy() const;

 private:
  struct Request {
    CheckpointInfo info;
    std::vector<DeviceState> devices;
  };

  void serve();
  void run(const Request& request);
  void release_data();

  const SaveOptions options_;
  const std::function<void(const SaveResult&)> on_finished_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool data_in_use_ = false;
  bool busy_ = false;
  bool ending_ = false;
  std::optional<Request> request_;
  std::optional<SaveResult> result_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace maxtext
