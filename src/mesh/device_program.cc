#include "mesh/device_program.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "mesh/communicator.h"

namespace maxtext {
namespace {

/// The exceptions of several devices, of which one is the cause.
class FirstFailure {
 public:
  void add(std::exception_ptr error, bool consequence) {
    const std::lock_guard lock(mutex_);
    std::exception_ptr& slot = consequence ? consequence_ : cause_;
    if (!slot) slot = std::move(error);
  }
  void rethrow() const {
    if (cause_) std::rethrow_exception(cause_);
    if (consequence_) std::rethrow_exception(consequence_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr cause_;
  std::exception_ptr consequence_;
};

using AbortFunction = std::function<void(int device, const std::string& reason)>;

void run_device(int device, const std::function<void(int)>& program, const AbortFunction& abort,
                FirstFailure& failure) {
  try {
    program(device);
  } catch (const PeerFailure&) {
    failure.add(std::current_exception(), true);
  } catch (const std::exception& error) {
    failure.add(std::current_exception(), false);
    abort(device, error.what());
  } catch (...) {
    failure.add(std::current_exception(), false);
    abort(device, "unknown exception");
  }
}

constexpr std::size_t kMaxCores = 65536;

}  // namespace

void run_devices(const std::vector<int>& devices, const std::function<void(int device)>& program,
                 const AbortFunction& abort) {
  FirstFailure failure;
  std::vector<std::jthread> threads;
  threads.reserve(devices.size());
  for (const int device : devices) {
    try {
      threads.emplace_back([&, device] { run_device(device, program, abort, failure); });
    } catch (const std::system_error& error) {
      const std::string reason = fmt::format("cannot start its thread: {}", error.what());
      failure.add(std::make_exception_ptr(Error(fmt::format("device {}: {}", device, reason))), false);
      abort(device, reason);
      break;
    }
  }
  threads.clear();  // joins
  failure.rethrow();
}

std::vector<std::vector<int>> split_cores(const std::vector<int>& cores, int local_devices) {
  if (local_devices < 1) fail("cores cannot be split among {} devices", local_devices);
  if (cores.empty()) fail("there are no cores to split among {} devices", local_devices);
  const auto devices = static_cast<std::size_t>(local_devices);
  const std::size_t each = std::max<std::size_t>(cores.size() / devices, 1);
  std::vector<std::vector<int>> parts(devices);
  for (std::size_t i = 0; i < devices; ++i) {
    const std::size_t first = cores.size() >= devices ? i * each : i * cores.size() / devices;
    parts[i].assign(cores.begin() + static_cast<std::ptrdiff_t>(first),
                    cores.begin() + static_cast<std::ptrdiff_t>(first + each));
  }
  return parts;
}

std::vector<std::vector<int>> split_cores(int local_devices) {
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(kMaxCores), [](cpu_set_t* s) { CPU_FREE(s); });
  const std::size_t bytes = CPU_ALLOC_SIZE(kMaxCores);
  if (sched_getaffinity(0, bytes, set.get()) != 0) fail("sched_getaffinity: {}", std::system_category().message(errno));
  std::vector<int> cores;
  for (std::size_t core = 0; core < kMaxCores; ++core) {
    if (CPU_ISSET_S(core, bytes, set.get())) cores.push_back(static_cast<int>(core));
  }
  return split_cores(cores, local_devices);
}

void pin_current_thread(const std::vector<int>& cores) {
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(kMaxCores), [](cpu_set_t* s) { CPU_FREE(s); });
  const std::size_t bytes = CPU_ALLOC_SIZE(kMaxCores);
  CPU_ZERO_S(bytes, set.get());
  for (const int core : cores) {
    if (core < 0 || core >= static_cast<int>(kMaxCores)) fail("core {} does not exist", core);
    CPU_SET_S(static_cast<std::size_t>(core), bytes, set.get());
  }
  const int code = pthread_setaffinity_np(pthread_self(), bytes, set.get());
  if (code != 0) fail("cannot pin a thread to {} cores: {}", cores.size(), std::system_category().message(code));
}

int pin_device_thread(std::vector<int> cores, std::size_t wanted) {
  if (wanted > 0 && cores.size() > wanted) cores.resize(wanted);
  pin_current_thread(cores);
  return static_cast<int>(wanted > 0 ? wanted : cores.size());
}

}  // namespace maxtext
