// Threads of devices that wait for work: several training runs can live in one process and take turns.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace maxtext::bench {

class DeviceThreads {
 public:
  using Work = std::function<void(int device)>;
  /// One thread per entry, bound to these cores as a training run binds it. `abort(device, reason)` is called when
  /// the work of a device throws, and must make the others stop.
  DeviceThreads(const std::vector<std::vector<int>>& cores,
                std::function<void(int device, const std::string& reason)> abort);
  ~DeviceThreads();
  DeviceThreads(const DeviceThreads&) = delete;
  DeviceThreads& operator=(const DeviceThreads&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }

  /// Every device does `work`; returns when all have. Rethrows the first exception that is not a PeerFailure, or else
  /// the first of those.
  void run(const Work& work);
  /// Device `device` does `work`, the others wait.
  void run_on(int device, const std::function<void()>& work);

 private:
  void serve(int device, const std::vector<int>& cores);
  void do_work(int device, const Work& work);

  std::function<void(int, const std::string&)> abort_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const Work* work_ = nullptr;
  long round_ = 0;
  int busy_ = 0;
  bool stop_ = false;
  std::exception_ptr cause_;
  std::exception_ptr consequence_;
  std::vector<std::thread> threads_;
};

}  // namespace maxtext::bench
