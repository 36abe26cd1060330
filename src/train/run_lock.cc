#include "train/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.h"

namespace maxtext {

RunLock::RunLock(const std::filesystem::path& run_directory) {
  std::error_code reason;
  std::filesystem::create_directories(run_directory / "checkpoints", reason);
  if (reason) {
    fail_config("{}: the run directory cannot be made: {} (base_output_directory and run_name)", run_directory.string(),
                reason.message());
  }
  const std::filesystem::path path = run_directory / ".lock";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) fail("{}: cannot be opened: {}", path.string(), std::strerror(errno));
  if (::flock(file_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  ::close(file_);
  if (error != EWOULDBLOCK) fail("{}: cannot be locked: {}", path.string(), std::strerror(error));
  fail("{}: another process is training this run; wait for it or choose another run_name", run_directory.string());
}

RunLock::~RunLock() { ::close(file_); }

}  // namespace maxtext
