#include "engines/xla/gpu_target.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/error.h"

namespace maxtext {
namespace {

/// H100 and H200 are the same chip with other memory. Without a GPU nothing is tuned by trying, so bandwidth and clock
/// only weigh one fusion against another.
std::string hopper(std::string_view description, std::int64_t memory_size, std::int64_t memory_bandwidth) {
  return fmt::format(R"(gpu_device_info {{
  cuda_compute_capability {{ major: 9 minor: 0 feature_extension: ACCELERATED_FEATURES }}
  core_count: 132
  fpus_per_core: 128
  threads_per_warp: 32
  threads_per_block_limit: 1024
  threads_per_core_limit: 2048
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  shared_memory_per_block: 49152
  shared_memory_per_core: 233472
  shared_memory_per_block_optin: 232448
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  thread_dim_limit_x: 1024
  thread_dim_limit_y: 1024
  thread_dim_limit_z: 64
  memory_bandwidth: {memory_bandwidth}
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: {memory_size}
  device_address_bits: 64
  driver_version: "13.0.0"
  runtime_version: "13.0.0"
  compile_time_toolkit_version: "13.0.0"
  dnn_version: "9.28.1"
}}
platform_name: "CUDA"
device_description_str: "{description}"
)",
                     fmt::arg("memory_bandwidth", memory_bandwidth), fmt::arg("memory_size", memory_size),
                     fmt::arg("description", description));
}

}  // namespace

std::string gpu_target_config(std::string_view name) {
  if (name == "h100") return hopper("NVIDIA H100", 84942979072, 3352320000000);
  if (name == "h200") return hopper("NVIDIA H200", 151397597184, 4800000000000);
  fail_config("no description of GPU '{}': expected h100 or h200", name);
}

}  // namespace maxtext
