#include "config/hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace maxtext {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

/// Memory of v5e, v5p and v6e is the limit that their compiler reports; that of v4 and tpu7x, per core, is all there
/// is, of which a program gets less.
std::vector<Accelerator> make_accelerators() {
  return {
      {"v4", Hardware::tpu, 16 * kGiB, 137.5, 614, {"TPU v4"}},
      {"v5e", Hardware::tpu, 63 * kGiB / 4, 197, 819, {"TPU v5 lite", "TPU v5e"}},
      {"v5p", Hardware::tpu, 102'800'000'000, 459, 2765, {"TPU v5", "TPU v5p"}},
      {"v6e", Hardware::tpu, 125 * kGiB / 4, 918, 1640, {"TPU v6 lite", "TPU v6e"}},
      {"tpu7x", Hardware::tpu, 96 * kGiB, 1153.5, 3690, {"TPU7x", "TPU v7x"}},
      {"a100", Hardware::gpu, 85'100'068'864, 312, 2039, {"NVIDIA A100-SXM4-80GB"}},
      {"h100", Hardware::gpu, 84'942'979'072, 989.4, 3352, {"NVIDIA H100 80GB HBM3"}},
      {"h200", Hardware::gpu, 151'397'597'184, 989.4, 4800, {"NVIDIA H200", "NVIDIA H200 141GB HBM3e"}},
      {"b200", Hardware::gpu, 191'514'411'008, 2250, 7672, {"NVIDIA B200"}},
  };
}

/// What XLA's compiler asks of a GPU beside memory and bandwidth.
struct GpuLimits {
  std::string_view name;
  std::string_view description;
  int compute_capability;  // the major number; the minor one is 0
  int cores;
  int fpus_per_core;
  int shared_memory_per_core;
  int shared_memory_per_block;  // for blocks that opt in
  std::int64_t l2_bytes;
  double clock_ghz;
};

constexpr std::array kGpuLimits = {
    GpuLimits{"a100", "NVIDIA A100-SXM4-80GB", 8, 108, 64, 167936, 166912, 41943040, 1.41},
    GpuLimits{"h100", "NVIDIA H100 80GB HBM3", 9, 132, 128, 233472, 232448, 52428800, 1.98},
    GpuLimits{"h200", "NVIDIA H200", 9, 132, 128, 233472, 232448, 52428800, 1.98},
    GpuLimits{"b200", "NVIDIA B200", 10, 148, 128, 233472, 232448, 132644864, 1.965},
};

/// The same for every CUDA device since compute capability 8.
constexpr std::string_view kCommonLimits =
    "threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048 shared_memory_per_block: 49152 "
    "block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535 thread_dim_limit_x: 1024 "
    "thread_dim_limit_y: 1024 thread_dim_limit_z: 64 registers_per_core_limit: 65536 registers_per_block_limit: 65536 "
    "device_address_bits: 64";

/// Versions of CUDA and cuDNN that the compiler may count on.
constexpr std::string_view kVersions =
    "driver_version: \"13.0.0\" runtime_version: \"13.0.0\" compile_time_toolkit_version: \"13.0.0\" dnn_version: "
    "\"9.12.0\"";

}  // namespace

std::string_view hardware_name(Hardware hardware) {
  switch (hardware) {
    case Hardware::cpu:
      return "cpu";
    case Hardware::tpu:
      return "tpu";
    case Hardware::gpu:
      return "gpu";
  }
  throw std::logic_error("unknown hardware");
}

std::span<const Accelerator> accelerators() {
  static const std::vector<Accelerator> table = make_accelerators();
  return table;
}

const Accelerator& accelerator(std::string_view name) {
  for (const Accelerator& each : accelerators()) {
    if (each.name == name) return each;
  }
  throw std::logic_error(fmt::format("no accelerator is called '{}'", name));
}

const Accelerator* accelerator_of_device(std::string_view device_kind) {
  for (const Accelerator& each : accelerators()) {
    if (std::ranges::find(each.device_kinds, device_kind) != each.device_kinds.end()) return &each;
  }
  return nullptr;
}

std::string gpu_target_config(const Accelerator& gpu) {
  const auto* const limits = std::ranges::find(kGpuLimits, gpu.name, &GpuLimits::name);
  if (limits == kGpuLimits.end()) throw std::logic_error(fmt::format("{} is not a GPU", gpu.name));
  // From compute capability 9 on, only the instructions of exactly this device ("sm_90a") reach its matrix units.
  const std::string_view features = limits->compute_capability >= 9 ? "ACCELERATED_FEATURES" : "NONE";
  return fmt::format(
      "gpu_device_info {{ {} core_count: {} fpus_per_core: {} shared_memory_per_core: {} "
      "shared_memory_per_block_optin: {} l2_cache_size: {} clock_rate_ghz: {} memory_bandwidth: {} device_memory_size: "
      "{} cuda_compute_capability {{ major: {} minor: 0 feature_extension: {} }} {} }} platform_name: \"CUDA\" "
      "dnn_version_info {{ major: 9 minor: 12 }} device_description_str: \"{}\"",
      kCommonLimits, limits->cores, limits->fpus_per_core, limits->shared_memory_per_core,
      limits->shared_memory_per_block, limits->l2_bytes, limits->clock_ghz,
      static_cast<std::int64_t>(gpu.memory_gigabytes_per_second * 1e9), gpu.memory_bytes, limits->compute_capability,
      features, kVersions, limits->description);
}

}  // namespace maxtext
