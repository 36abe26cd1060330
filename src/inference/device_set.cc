#include "inference/device_set.h"

#include <algorithm>

#include "mesh/device_program.h"

namespace maxtext {

void run_on_devices(Transport& transport, const DecodeEnvironment& environment,
                    const std::function<void(Engine& engine)>& program) {
  const std::vector<int>& devices = transport.local_devices();
  const std::vector<std::vector<int>> cores = split_cores(static_cast<int>(devices.size()));
  const auto wanted = static_cast<std::size_t>(environment.threads_per_device);
  const auto run = [&](int device) {
    const auto local = static_cast<std::size_t>(std::ranges::find(devices, device) - devices.begin());
    const int threads = pin_device_thread(cores[local], wanted);
    const std::unique_ptr<Communicator> communicator = transport.communicator(device);
    const std::unique_ptr<Engine> engine = environment.make_engine(*communicator, threads);
    program(*engine);
  };
  run_devices(devices, run, [&](int device, const std::string& reason) { transport.abort(device, reason); });
}

}  // namespace maxtext
