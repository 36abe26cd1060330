// One process writes to a run at a time: two would delete each other's half-written checkpoints.
#pragma once

#include <filesystem>

namespace maxtext {

class RunLock {
 public:
  /// Creates the run directory with its folder of checkpoints and takes the lock on it, which ends with this object or
  /// with the process, however that ends. Throws Error when the directory cannot be made or written to, or when another
  /// process has the lock.
  explicit RunLock(const std::filesystem::path& run_directory);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace maxtext
