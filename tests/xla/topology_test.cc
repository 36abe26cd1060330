// Compiling ahead of time for hardware that is not here. The plugins are large: where they are not installed, these
// tests are skipped.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/hardware.h"
#include "engines/xla/pjrt_error.h"
#include "engines/xla/pjrt_topology.h"
#include "xla/error_of.h"
#include "xla/plugin.h"

namespace maxtext::testing {
namespace {

/// Each replica gathers the rows [2, 256] of all four, and gives the squares of their products with a matrix, and its
/// double in its own memory.
constexpr const char* kGatherAndMultiply = R"(module @gather_and_multiply {
  func.func public @main(%x: tensor<2x256xf32>, %w: tensor<256x256xf32> {tf.aliasing_output = 1 : i32})
      -> (tensor<8x256xf32>, tensor<256x256xf32>) {
    %all = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64,
        replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<2x256xf32>) -> tensor<8x256xf32>
    %y = stablehlo.dot_general %all, %w, contracting_dims = [1] x [0] :
        (tensor<8x256xf32>, tensor<256x256xf32>) -> tensor<8x256xf32>
    %squares = stablehlo.multiply %y, %y : tensor<8x256xf32>
    %new = stablehlo.add %w, %w : tensor<256x256xf32>
    return %squares, %new : tensor<8x256xf32>, tensor<256x256xf32>
  }
})";

constexpr std::int64_t kArguments = (2 * 256 + 256 * 256) * 4;
constexpr std::int64_t kResults = (8 * 256 + 256 * 256) * 4;
constexpr std::int64_t kDonated = 256 * 256 * 4;

void expect_the_programs_memory(const CompiledProgram& program) {
  EXPECT_GT(program.compile_seconds(), 0);
  const CompiledMemory& memory = program.memory();
  EXPECT_EQ(memory.arguments, kArguments);
  // An accelerator's compiler may add a table of the results.
  EXPECT_GE(memory.results, kResults);
  EXPECT_LE(memory.results, kResults + 4096);
  EXPECT_EQ(memory.aliased, kDonated);
  EXPECT_GE(memory.peak, kArguments + kResults - kDonated);
  EXPECT_LE(memory.peak, 4 * kArguments);
}

class OnTpuTopology : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_plugin("tpu"); !reason.empty()) GTEST_SKIP() << reason;
  }

  static std::unique_ptr<PjrtTopology> open(const std::string& name) {
    return PjrtTopology::open(plugin_path("tpu"), name);
  }
};

TEST_P(OnTpuTopology, CompilesAProgramForFourChips) {
  const std::unique_ptr<PjrtTopology> topology = open(GetParam());
  ASSERT_EQ(topology->devices().size(), 4);
  std::set<std::vector<std::int64_t>> places;
  for (const TopologyDevice& device : topology->devices()) {
    places.insert(device.coordinates);
    EXPECT_GT(device.memory_bytes, std::int64_t{15} << 30);
  }
  EXPECT_EQ(places.size(), 4) << "each has a place of its own";

  const std::unique_ptr<CompiledProgram> program =
      topology->compile(kGatherAndMultiply, {.replicas = 4, .device_ids = {}, .flags = {}});
  expect_the_programs_memory(*program);
  EXPECT_GT(program->memory().code, 0);
  EXPECT_FALSE(program->optimized().bytes.empty());
  EXPECT_FALSE(program->serialized().empty());
}

TEST_P(OnTpuTopology, AFlagChangesTheProgramAndAnUnknownOneIsNamed) {
  const std::unique_ptr<PjrtTopology> topology = open(GetParam());
  XlaCompileOptions options{.replicas = 4, .device_ids = {3, 1, 0, 2}, .flags = {}};
  EXPECT_NO_THROW(topology->compile(kGatherAndMultiply, options));
  options.flags["xla_no_such_flag"] = true;
  EXPECT_EQ(error_of([&] { topology->compile(kGatherAndMultiply, options); }),
            "compiling a program: No such compile option: 'xla_no_such_flag'");
}

TEST_P(OnTpuTopology, AProgramThatDoesNotFitIsRefusedWithTheAmounts) {
  const std::unique_ptr<PjrtTopology> topology = open(GetParam());
  std::string text = kGatherAndMultiply;
  // Its matrix and that one's double, 40 GB, are more than any of the chips has.
  constexpr std::string_view kSize = "100000";
  for (std::size_t at = text.find("256"); at != std::string::npos; at = text.find("256", at + kSize.size())) {
    text.replace(at, 3, kSize);
  }
  try {
    topology->compile(text, {.replicas = 4, .device_ids = {}, .flags = {}});
    FAIL() << "it compiled";
  } catch (const OutOfDeviceMemory& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("CompileTimeHbmOom"), std::string::npos) << message;
    EXPECT_NE(message.find("exceeds available HBM"), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_EQ(message.find(error.words().substr(0, error.words().find('\n'))),
              std::string("compiling a program: ").size());
  }
}

TEST_P(OnTpuTopology, WrongUseIsNamed) {
  const std::unique_ptr<PjrtTopology> topology = open(GetParam());
  for (const int replicas : {2, 8}) {
    EXPECT_EQ(
        error_of([&] { topology->compile(kGatherAndMultiply, {.replicas = replicas, .device_ids = {}, .flags = {}}); }),
        fmt::format("a mesh of {} devices, but the topology has 4", replicas));
  }
  const std::string unknown = error_of([] { open("v6e-8"); });
  EXPECT_TRUE(unknown.starts_with("topology v6e-8: ")) << unknown;
}

INSTANTIATE_TEST_SUITE_P(Chips, OnTpuTopology, ::testing::Values("v5e:2x2", "v6e:2x2"));

class OnGpuTopology : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_plugin("gpu"); !reason.empty()) GTEST_SKIP() << reason;
  }

  static std::unique_ptr<PjrtTopology> open(const std::string& target_config) {
    return PjrtTopology::open(plugin_path("gpu"), "gpus", {{"topology", "1x1x4"}, {"target_config", target_config}});
  }
};

TEST_F(OnGpuTopology, CompilesAProgramForFourGpus) {
  for (const auto& [name, memory_bytes] : {std::pair("h100", 84942979072), std::pair("h200", 151397597184)}) {
    SCOPED_TRACE(name);
    const std::unique_ptr<PjrtTopology> topology = open(gpu_target_config(accelerator(name)));
    ASSERT_EQ(topology->devices().size(), 4);
    EXPECT_EQ(topology->devices()[3].memory_bytes, memory_bytes);
    const std::unique_ptr<CompiledProgram> program =
        topology->compile(kGatherAndMultiply, {.replicas = 4, .device_ids = {}, .flags = {}});
    expect_the_programs_memory(*program);
    EXPECT_FALSE(program->optimized().bytes.empty());
  }
}

TEST_F(OnGpuTopology, AFlagChangesTheProgram) {
  const std::unique_ptr<PjrtTopology> topology = open(gpu_target_config(accelerator("h200")));
  XlaCompileOptions options{.replicas = 4, .device_ids = {}, .flags = {}};
  constexpr const char* kLibraryCall = "__cublas";
  const auto optimized = [&] { return topology->compile(kGatherAndMultiply, options)->optimized().bytes; };
  options.flags["xla_gpu_enable_triton_gemm"] = true;
  EXPECT_EQ(optimized().find(kLibraryCall), std::string::npos);
  options.flags["xla_gpu_enable_triton_gemm"] = false;
  EXPECT_NE(optimized().find(kLibraryCall), std::string::npos);
}

TEST_F(OnGpuTopology, WrongUseIsNamed) {
  const std::string target = error_of([] { open("not a target"); });
  EXPECT_TRUE(target.starts_with("topology gpus: ")) << target;
}

/// Loads the plugin where there is no GPU; where there is one, this has nothing to show.
TEST_F(OnGpuTopology, AClientWithoutAGpuIsRefused) {
  const std::string error = error_of([] { PjrtClient::open(plugin_path("gpu"), PjrtOptions{}); });
  if (error == "(no error)") GTEST_SKIP() << "there is a GPU";
  EXPECT_TRUE(error.starts_with(fmt::format("PJRT plugin {} finds no devices: ", plugin_path("gpu").string())))
      << error;
  EXPECT_NE(error.find("No visible GPU devices"), std::string::npos) << error;
}

}  // namespace
}  // namespace maxtext::testing
