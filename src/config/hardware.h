// What programs run on: kinds of hardware, and what is known of each accelerator before one is at hand.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace maxtext {

enum class Hardware { cpu, tpu, gpu };

/// "cpu", "tpu" or "gpu".
std::string_view hardware_name(Hardware hardware);

/// One device of a kind of accelerator, as PJRT counts devices: a chip; of v4 and tpu7x one of the two cores of a chip.
struct Accelerator {
  /// The part of a topology's name before the number: "v6e", "h200".
  std::string_view name;
  Hardware hardware = Hardware::tpu;
  /// What a program can use where a compiler said so, otherwise what the device has by its specification. A plugin that
  /// tells its device's limit knows better.
  std::int64_t memory_bytes = 0;
  /// Dense matrix products of bfloat16 with float32 sums, in TFLOP/s, by the specification: what MFU is a share of.
  double peak_tflops = 0;
  /// By the specification, in GB/s.
  double memory_gigabytes_per_second = 0;
  /// What PJRT plugins call such a device (`device_kind`).
  std::vector<std::string_view> device_kinds;
};

/// v4, v5e, v5p, v6e, tpu7x, a100, h100, h200, b200.
std::span<const Accelerator> accelerators();

/// The accelerator of that name; throws std::logic_error where there is none.
const Accelerator& accelerator(std::string_view name);

/// The accelerator that a plugin calls `device_kind`, or null: of others no peak is known.
const Accelerator* accelerator_of_device(std::string_view device_kind);

/// The text of XLA's GpuTargetConfigProto for a GPU, which stands in for the device when its plugin compiles without
/// one. Throws std::logic_error for other hardware.
std::string gpu_target_config(const Accelerator& gpu);

}  // namespace maxtext
