// The accelerators that a program is compiled for without having them: MaxText's names (compile_topology=v6e-256), and
// names of GPUs made the same way.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/hardware.h"

namespace maxtext {

/// One slice: devices joined by their fast network. The number in the name counts, as MaxText's do, chips for v5e and
/// v6e, cores (two per chip) for v4, v5p and tpu7x, and GPUs.
struct CompileTopology {
  std::string name;
  /// An entry of accelerators(), which live as long as the process.
  const Accelerator* accelerator = nullptr;
  /// TPUs: chips of the slice along each dimension. GPUs: {1, hosts, GPUs per host}.
  std::array<int, 3> bounds = {1, 1, 1};
  /// TPUs: chips of one host along each dimension, the plugin's option `chips_per_host_bounds`. GPUs: {1, 1, 1}.
  std::array<int, 3> host_bounds = {1, 1, 1};
  /// As PJRT counts them: v5p-8 has 4, v6e-256 has 256. v4-8 has 8, since the plugin makes a device of each core, where
  /// MaxText joins the two of a chip.
  int devices_per_slice = 1;
};

/// The topology of that name, or nothing. `a3` is MaxText's name for h100-8.
/// v4, v5p, tpu7x: 1, 2, 4, 8 or 16 chips (2x2x1, 2x2x2, ...; of 1 only tpu7x), or a box of 4x4x4 cubes, the most
/// compact one; v5e, v6e: 1x1, 2x2, 2x4, ... 16x16; a100 (80 GB), h100, h200, b200: 1, 2, 4 or 8 GPUs, or hosts of 8.
const CompileTopology* find_compile_topology(std::string_view name);

/// "v6e-1 to v6e-256, ...": the families with their smallest and largest member, for errors and documentation.
std::string compile_topology_families();

/// "; did you mean v6e-256", or nothing.
std::string did_you_mean_topology(std::string_view name);

/// What a TPU plugin takes as the name of the topology: "v6e:16x16", "v5p:2x2x1". The number of slices is its option
/// `num_slices`. Throws std::logic_error for a GPU.
std::string tpu_topology_name(const CompileTopology& topology);

/// What the CUDA plugin takes as its option `topology` for `slices` of them: partitions x hosts in each x GPUs of a
/// host, "1x1x8". A partition is what NVLink joins, here a host, so that h200-16 is "2x1x8". Throws std::logic_error
/// for a TPU.
std::string gpu_topology_option(const CompileTopology& topology, int slices);

}  // namespace maxtext
