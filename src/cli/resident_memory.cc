#include "cli/resident_memory.h"

#include "engines/cpu/memory_model.h"
#include "engines/dry/dry_engine.h"

namespace maxtext {
namespace {

/// Program, libraries, their tables, oneDNN's code and packing buffers. VmHWM of training steps exceeded the engines'
/// memory by 20 MiB with next to no tensors, by 34 to 92 MiB where they took 0.4 to 1.5 GiB.
constexpr std::int64_t kProcessBytes = std::int64_t{64} << 20;

}  // namespace

DeviceMemory device_memory(const RunSetup& setup, const ContextPlan& plan, Placing placing, int threads) {
  CpuMemoryModel model(threads);
  DryEngine engine(setup.mesh, 0,
                   {.shares_memory = placing == Placing::one_process,
                    .on_allocate = [&](std::int64_t bytes) { return model.allocate(bytes); },
                    .on_execute = [&](const Op& op, InputSpecs inputs) { model.execute(op, inputs); }});
  dry_step(setup, plan, engine);
  return {.tensors = engine.memory().peak_bytes(),
          .pool = model.pool_bytes(),
          .workspace = model.workspace_bytes(),
          .shared = engine.shared_bytes()};
}

std::int64_t resident_bytes_of_process(const DeviceMemory& device, int local_devices) {
  return kProcessBytes + local_devices * device.resident();
}

}  // namespace maxtext
