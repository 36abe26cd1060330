// Runs the program of each local device on a thread of its own, and deals the cores among them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace maxtext {

/// Runs `program(device)` for every entry of `devices`, each on its own thread, and returns when all have ended.
/// When a program throws, `abort(device, what)` is called at once, which must make the others stop
/// (Transport::abort); after all have ended, the first exception that is not a PeerFailure is rethrown as it is
/// (a ConfigError stays one), or else the first PeerFailure.
void run_devices(const std::vector<int>& devices, const std::function<void(int device)>& program,
                 const std::function<void(int device, const std::string& reason)>& abort);

/// The cores that this process may use (sched_getaffinity), dealt to `local_devices` devices: contiguous parts of
/// equal size, since the slowest device sets the pace; what does not divide is left to other work. With more devices
/// than cores each gets one core and shares it. To be called before any thread is pinned.
std::vector<std::vector<int>> split_cores(int local_devices);

/// The same for a given list of cores.
std::vector<std::vector<int>> split_cores(const std::vector<int>& cores, int local_devices);

/// Binds the calling thread, and threads that it starts later (its OpenMP team), to `cores`. Throws Error when the
/// system refuses.
void pin_current_thread(const std::vector<int>& cores);

/// Binds the calling thread to the first `wanted` of a device's cores, or to all where `wanted` is 0 or more than there
/// are. Returns the number of threads that the device's engine should have: `wanted`, or else as many as cores.
int pin_device_thread(std::vector<int> cores, std::size_t wanted);

}  // namespace maxtext
