#include "checkpoint/async_checkpointer.h"

#include <exception>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace maxtext {

AsyncCheckpointer::AsyncCheckpointer(SaveOptions options, std::function<void(const SaveResult&)> on_finished)
    : options_(std::move(options)), on_finished_(std::move(on_finished)) {
  try {
    thread_ = std::thread([this] { serve(); });
  } catch (const std::system_error& error) {
    fail("cannot start the thread that saves checkpoints: {}", error.what());
  }
}

AsyncCheckpointer::~AsyncCheckpointer() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void AsyncCheckpointer::save(CheckpointInfo info, std::vector<DeviceState> devices) {
  Request request{std::move(info), std::move(devices)};
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
  request_ = std::move(request);
  data_in_use_ = true;
  busy_ = true;
  result_.reset();
  changed_.notify_all();
}

void AsyncCheckpointer::serve() {
  for (;;) {
    Request request;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return request_.has_value() || ending_; });
      if (!request_.has_value()) return;
      request = *std::exchange(request_, std::nullopt);
    }
    run(request);
  }
}

void AsyncCheckpointer::run(const Request& request) {
  SaveResult result;
  result.step = request.info.step;
  try {
    result = save_checkpoint(options_, request.info, request.devices, [this] { release_data(); });
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

bool AsyncCheckpointer::data_in_use() const {
  const std::lock_guard lock(mutex_);
  return data_in_use_;
}

std::optional<SaveResult> AsyncCheckpointer::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
  return result_;
}

bool AsyncCheckpointer::busy() const {
  const std::lock_guard lock(mutex_);
  return busy_;
}

}  // namespace maxtext
