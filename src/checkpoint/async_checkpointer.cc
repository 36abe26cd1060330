#include "checkpoint/async_checkpointer.h"

#include <exception>
#include <utility>

namespace maxtext {

AsyncCheckpointer::AsyncCheckpointer(SaveOptions options, std::function<void(const SaveResult&)> on_finished)
    : options_(std::move(options)), on_finished_(std::move(on_finished)) {}

AsyncCheckpointer::~AsyncCheckpointer() { wait(); }

void AsyncCheckpointer::save(CheckpointInfo info, std::vector<DeviceState> devices) {
  wait();
  {
    const std::lock_guard lock(mutex_);
    data_in_use_ = true;
    busy_ = true;
    result_.reset();
  }
  thread_ = std::thread([this, info = std::move(info), devices = std::move(devices)] { run(info, devices); });
}

void AsyncCheckpointer::run(const CheckpointInfo& info, const std::vector<DeviceState>& devices) {
  SaveResult result;
  result.step = info.step;
  try {
    result = save_checkpoint(options_, info, devices, [this] { release_data(); });
  } catch (const std::exception& error) {
    result.error = error.what();
  } catch (...) {
    result.error = "unknown failure";
  }
  release_data();
  if (on_finished_) on_finished_(result);
  const std::lock_guard lock(mutex_);
  result_ = std::move(result);
  busy_ = false;
  changed_.notify_all();
}

void AsyncCheckpointer::release_data() {
  const std::lock_guard lock(mutex_);
  data_in_use_ = false;
  changed_.notify_all();
}

void AsyncCheckpointer::wait_before_update() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !data_in_use_; });
}

std::optional<SaveResult> AsyncCheckpointer::wait() {
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  return result_;
}

bool AsyncCheckpointer::busy() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

}  // namespace maxtext
