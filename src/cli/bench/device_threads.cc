#include "cli/bench/device_threads.h"

#include "mesh/communicator.h"
#include "mesh/device_program.h"

namespace maxtext::bench {

DeviceThreads::DeviceThreads(const std::vector<std::vector<int>>& cores,
                             std::function<void(int device, const std::string& reason)> abort)
    : abort_(std::move(abort)) {
  for (std::size_t i = 0; i < cores.size(); ++i) {
    threads_.emplace_back([this, i, mine = cores[i]] { serve(static_cast<int>(i), mine); });
  }
}

DeviceThreads::~DeviceThreads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void DeviceThreads::serve(int device, const std::vector<int>& cores) {
  bool pinned = false;
  for (long seen = 0;;) {
    const Work* work = nullptr;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
      work = work_;
    }
    do_work(device, [&](int index) {
      if (!pinned) pin_current_thread(cores);
      pinned = true;
      (*work)(index);
    });
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) changed_.notify_all();
  }
}

void DeviceThreads::do_work(int device, const Work& work) {
  try {
    work(device);
  } catch (const PeerFailure&) {
    const std::lock_guard lock(mutex_);
    if (!consequence_) consequence_ = std::current_exception();
  } catch (const std::exception& error) {
    {
      const std::lock_guard lock(mutex_);
      if (!cause_) cause_ = std::current_exception();
    }
    abort_(device, error.what());
  }
}

void DeviceThreads::run(const Work& work) {
  std::unique_lock lock(mutex_);
  cause_ = consequence_ = nullptr;
  work_ = &work;
  busy_ = size();
  ++round_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return busy_ == 0; });
  if (cause_) std::rethrow_exception(cause_);
  if (consequence_) std::rethrow_exception(consequence_);
}

void DeviceThreads::run_on(int device, const std::function<void()>& work) {
  run([&](int mine) {
    if (mine == device) work();
  });
}

}  // namespace maxtext::bench
