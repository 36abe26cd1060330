// The memory of a training process on the cpu engine, predicted from shapes.
#pragma once

#include "train/dry_step.h"

namespace maxtext {

/// What one device holds for good after its first steps, in bytes.
struct DeviceMemory {
  /// Live bytes of tensors at their peak.
  std::int64_t tensors = 0;
  /// The pool behind tensors: their peak, scratch of ops, and gaps between blocks.
  std::int64_t pool = 0;
  /// Scratch of the attention kernels.
  std::int64_t workspace = 0;
  /// Parts of parameters and moments that devices of one process share.
  std::int64_t shared = 0;

  std::int64_t resident() const { return pool + workspace + shared; }
  /// What the device holds beside its tensors.
  std::int64_t scratch() const { return resident() - tensors; }
};

/// Where the devices of a mesh run.
enum class Placing { one_process, process_per_device };

/// Device 0 of the mesh, which no device exceeds by more than a row of the batch. It has the threads that a run on this
/// machine would give it: threads_per_device, or its share of the cores.
DeviceMemory device_memory(const RunSetup& setup, const ContextPlan& plan, Placing placing, int threads);

/// VmHWM of a process with `local_devices` such devices: theirs and what any process of the program holds.
std::int64_t resident_bytes_of_process(const DeviceMemory& device, int local_devices);

}  // namespace maxtext
