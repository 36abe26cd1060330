#include "config/compile_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

namespace maxtext {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const CompileTopology& topology(std::string_view name) {
  const CompileTopology* const found = find_compile_topology(name);
  if (found == nullptr) throw std::runtime_error("no topology " + std::string(name));
  return *found;
}

struct TpuCase {
  const char* name;
  const char* plugin_name;
  int devices;
};

/// Names and shapes of MaxText's table; devices as the plugin counts them.
class TpuTopology : public ::testing::TestWithParam<TpuCase> {};

TEST_P(TpuTopology, HasMaxTextsShape) {
  const TpuCase& expected = GetParam();
  EXPECT_EQ(tpu_topology_name(topology(expected.name)), expected.plugin_name);
  EXPECT_EQ(topology(expected.name).devices_per_slice, expected.devices);
}

INSTANTIATE_TEST_SUITE_P(
    MaxText, TpuTopology,
    ::testing::Values(TpuCase{"v6e-1", "v6e:1x1", 1}, TpuCase{"v6e-4", "v6e:2x2", 4}, TpuCase{"v6e-8", "v6e:2x4", 8},
                      TpuCase{"v6e-128", "v6e:8x16", 128}, TpuCase{"v6e-256", "v6e:16x16", 256},
                      TpuCase{"v5e-16", "v5e:4x4", 16}, TpuCase{"v5e-256", "v5e:16x16", 256},
                      TpuCase{"v5p-8", "v5p:2x2x1", 4}, TpuCase{"v5p-64", "v5p:2x4x4", 32},
                      TpuCase{"v5p-128", "v5p:4x4x4", 64}, TpuCase{"v5p-512", "v5p:4x8x8", 256},
                      TpuCase{"v5p-2048", "v5p:8x8x16", 1024}, TpuCase{"v5p-3072", "v5p:8x12x16", 1536},
                      TpuCase{"v5p-5760", "v5p:12x12x20", 2880}, TpuCase{"v5p-7808", "v5p:4x4x244", 3904},
                      TpuCase{"v5p-9216", "v5p:12x16x24", 4608}, TpuCase{"v5p-12288", "v5p:16x16x24", 6144},
                      TpuCase{"v5p-17920", "v5p:16x20x28", 8960}, TpuCase{"tpu7x-2", "tpu7x:1x1x1", 2},
                      TpuCase{"tpu7x-8", "tpu7x:2x2x1", 8}, TpuCase{"tpu7x-18432", "tpu7x:16x24x24", 18432},
                      TpuCase{"v4-8", "v4:2x2x1", 8}, TpuCase{"v4-1536", "v4:8x8x12", 1536},
                      TpuCase{"v4-4096", "v4:8x16x16", 4096}),
    [](const auto& tested) {
      std::string name = tested.param.name;
      std::ranges::replace(name, '-', '_');
      return name;
    });

TEST(CompileTopology, HostsOfATpuHaveFourChips) {
  EXPECT_EQ(topology("v6e-256").host_bounds, (std::array<int, 3>{2, 2, 1}));
  EXPECT_EQ(topology("v6e-1").host_bounds, (std::array<int, 3>{1, 1, 1}));
}

TEST(CompileTopology, HostsOfGpusArePartitions) {
  EXPECT_EQ(gpu_topology_option(topology("h200-8"), 1), "1x1x8");
  EXPECT_EQ(gpu_topology_option(topology("h200-16"), 1), "2x1x8");
  EXPECT_EQ(gpu_topology_option(topology("h100-2"), 1), "1x1x2");
  EXPECT_EQ(gpu_topology_option(topology("a3"), 4), "4x1x8") << "MaxText counts hosts as slices";
  EXPECT_EQ(topology("a3").accelerator->name, "h100");
  EXPECT_EQ(topology("b200-16").devices_per_slice, 16);
}

TEST(CompileTopology, AsksTheRightHardware) {
  EXPECT_THROW(gpu_topology_option(topology("v6e-8"), 1), std::logic_error);
  EXPECT_THROW(tpu_topology_name(topology("h200-8")), std::logic_error);
}

TEST(CompileTopology, OthersAreUnknown) {
  for (const char* name : {"", "v6e", "v6e-", "v6e-2", "v6e-255", "v6e-0256", "v5p-4", "v5p-8576", "h100-3", "h100-12",
                           "h100-0", "cpu-8"}) {
    EXPECT_EQ(find_compile_topology(name), nullptr) << name;
  }
}

TEST(CompileTopology, SuggestsNames) {
  EXPECT_THAT(did_you_mean_topology("v6e256"), HasSubstr("v6e-256"));
  EXPECT_THAT(did_you_mean_topology("h200_8"), HasSubstr("h200-8"));
  EXPECT_THAT(compile_topology_families(), AllOf(HasSubstr("v6e-1 to v6e-256"), HasSubstr("v5p-8 to v5p-17920"),
                                                 HasSubstr("tpu7x-2 to tpu7x-18432"), HasSubstr("h200-1 to h200-")));
}

TEST(Accelerators, AreFoundByThePluginsNames) {
  ASSERT_NE(accelerator_of_device("TPU v6 lite"), nullptr);
  EXPECT_EQ(accelerator_of_device("TPU v6 lite")->name, "v6e");
  EXPECT_EQ(accelerator_of_device("NVIDIA H200")->name, "h200");
  EXPECT_EQ(accelerator_of_device("NVIDIA H100 PCIe"), nullptr) << "which is slower than the one on a board";
  std::set<std::string_view> kinds;
  for (const Accelerator& each : accelerators()) {
    for (const std::string_view kind : each.device_kinds) EXPECT_TRUE(kinds.insert(kind).second) << kind;
  }
}

TEST(Accelerators, HaveThePublishedFigures) {
  EXPECT_EQ(accelerator("v6e").memory_bytes, 33554432000) << "31.25 GiB";
  EXPECT_EQ(accelerator("v5e").memory_bytes, 16911433728) << "15.75 GiB";
  EXPECT_EQ(accelerator("v6e").peak_tflops, 918);
  EXPECT_EQ(accelerator("v5p").peak_tflops, 459);
  for (const Accelerator& each : accelerators()) {
    EXPECT_GT(each.peak_tflops, 100) << each.name;
    EXPECT_GT(each.memory_gigabytes_per_second, 500) << each.name;
  }
}

TEST(GpuTargetConfig, SaysWhatTheCompilerAsks) {
  const std::string text = gpu_target_config(accelerator("h200"));
  for (const char* field :
       {"gpu_device_info {", "core_count: 132 ", "shared_memory_per_block_optin: 232448 ", "clock_rate_ghz: 1.98 ",
        "memory_bandwidth: 4800000000000 ", "device_memory_size: 151397597184 ", "major: 9 minor: 0 ",
        "feature_extension: ACCELERATED_FEATURES", "platform_name: \"CUDA\"", "NVIDIA H200"}) {
    EXPECT_THAT(text, HasSubstr(field));
  }
  EXPECT_EQ(std::ranges::count(text, '{'), std::ranges::count(text, '}'));
  EXPECT_THAT(gpu_target_config(accelerator("a100")), HasSubstr("major: 8 minor: 0 feature_extension: NONE"));
  EXPECT_THROW(gpu_target_config(accelerator("v6e")), std::logic_error);
}

}  // namespace
}  // namespace maxtext
