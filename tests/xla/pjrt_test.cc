// The PJRT client: buffers on devices, programs over them, what wrong use and broken plugins say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engines/xla/pjrt_client.h"
#include "xla/error_of.h"
#include "xla/plugin.h"

namespace maxtext::testing {
namespace {

const TensorSpec kMatrix{{2, 3}, DType::float32};
const TensorSpec kTransposed{{3, 2}, DType::float32};

/// One client for all tests: a plugin wants to be loaded once.
class Pjrt : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (why_no_plugin().empty()) client_ = PjrtClient::open(plugin_path(), 2);
  }
  static void TearDownTestSuite() { client_.reset(); }

  void SetUp() override {
    if (const std::string reason = why_no_plugin(); !reason.empty()) GTEST_SKIP() << reason;
  }

  static std::unique_ptr<PjrtBuffer> put(int device, const TensorSpec& spec, const std::vector<float>& values) {
    return client_->put(device, spec, std::as_bytes(std::span(values)));
  }

  static std::vector<float> read(const PjrtBuffer& buffer) {
    std::vector<float> values(static_cast<std::size_t>(buffer.spec().elements()));
    buffer.read(std::as_writable_bytes(std::span(values)));
    return values;
  }

  static std::unique_ptr<PjrtClient> client_;
};
std::unique_ptr<PjrtClient> Pjrt::client_;

/// x -> x + x, with x's memory for the result.
constexpr const char* kDoubleDonated = R"(module @double {
  func.func public @main(%x: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2x3xf32> {
    %r = stablehlo.add %x, %x : tensor<2x3xf32>
    return %r : tensor<2x3xf32>
  }
})";

/// x -> its transpose and the sum of x over all replicas.
constexpr const char* kTransposeAndSum = R"(module @transpose_and_sum {
  func.func public @main(%x: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<2x3xf32>) {
    %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %s = "stablehlo.all_reduce"(%x) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    return %t, %s : tensor<3x2xf32>, tensor<2x3xf32>
  }
})";

TEST_F(Pjrt, EveryDtypeComesBackAsItWasPut) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16, DType::int32, DType::int64,
                            DType::uint8, DType::int8}) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3, 4}, Shape{0, 2}}) {
      const TensorSpec spec{shape, dtype};
      std::vector<std::byte> sent(static_cast<std::size_t>(spec.bytes()));
      for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(7 * i + 1);
      const std::unique_ptr<PjrtBuffer> buffer = client_->put(1, spec, sent);
      EXPECT_EQ(buffer->spec(), spec);
      std::vector<std::byte> received(sent.size());
      buffer->read(received);
      EXPECT_EQ(received, sent) << to_string(spec);
    }
  }
}

TEST_F(Pjrt, BuffersStayOnTheDeviceBetweenRuns) {
  const std::unique_ptr<PjrtProgram> program = client_->compile(kDoubleDonated, 1);
  std::unique_ptr<PjrtBuffer> state = put(0, kMatrix, {1, 2, 3, 4, 5, 6});
  for (int run = 0; run < 3; ++run) {
    std::vector<PjrtProgram::Results> results = program->run({{state.get()}}, {kMatrix});
    // What was donated cannot be read any more.
    EXPECT_THROW(read(*state), Error);
    state = std::move(results.at(0).at(0));
  }
  EXPECT_EQ(read(*state), (std::vector<float>{8, 16, 24, 32, 40, 48}));
  EXPECT_EQ(read(*state), (std::vector<float>{8, 16, 24, 32, 40, 48})) << "reading uses nothing up";
}

TEST_F(Pjrt, ReplicasHaveTheirOwnArgumentsAndResults) {
  const std::unique_ptr<PjrtProgram> program = client_->compile(kTransposeAndSum, 2);
  const std::unique_ptr<PjrtBuffer> first = put(0, kMatrix, {1, 2, 3, 4, 5, 6});
  const std::unique_ptr<PjrtBuffer> second = put(1, kMatrix, {10, 20, 30, 40, 50, 60});
  for (int run = 0; run < 2; ++run) {
    const std::vector<PjrtProgram::Results> results =
        program->run({{first.get()}, {second.get()}}, {kTransposed, kMatrix});
    EXPECT_EQ(read(*results.at(0).at(0)), (std::vector<float>{1, 4, 2, 5, 3, 6}));
    EXPECT_EQ(read(*results.at(1).at(0)), (std::vector<float>{10, 40, 20, 50, 30, 60}));
    for (const PjrtProgram::Results& replica : results) {
      EXPECT_EQ(read(*replica.at(1)), (std::vector<float>{11, 22, 33, 44, 55, 66}));
    }
  }
}

TEST_F(Pjrt, ResultsOutliveTheProgram) {
  std::unique_ptr<PjrtProgram> program = client_->compile(kDoubleDonated, 1);
  const std::unique_ptr<PjrtBuffer> argument = put(0, kMatrix, {1, 2, 3, 4, 5, 6});
  const std::vector<PjrtProgram::Results> results = program->run({{argument.get()}}, {kMatrix});
  program.reset();
  EXPECT_EQ(read(*results.at(0).at(0)), (std::vector<float>{2, 4, 6, 8, 10, 12}));
}

TEST_F(Pjrt, WrongUseIsNamed) {
  const std::vector<float> values(6);
  EXPECT_EQ(error_of([&] { put(2, kMatrix, values); }), "xla: there is no device 2: the plugin has 2");
  EXPECT_EQ(error_of([&] {
              put(0, kTransposed, {1, 2});
            }),
            "copying an argument to a device: 8 bytes where float32[3, 2] has 24");
  const std::unique_ptr<PjrtBuffer> buffer = put(0, kMatrix, values);
  std::vector<std::byte> small(4);
  EXPECT_EQ(error_of([&] { buffer->read(small); }), "copying a result to the host: 4 bytes where float32[2, 3] has 24");
  const std::unique_ptr<PjrtProgram> program = client_->compile(kDoubleDonated, 1);
  EXPECT_EQ(error_of([&] { program->run({}, {kMatrix}); }), "a program of 1 replicas was given arguments for 0");
  EXPECT_EQ(error_of([&] { program->run({{buffer.get()}}, {}); }), "a program has 1 results, not 0");
  const std::unique_ptr<PjrtProgram> both = client_->compile(kTransposeAndSum, 2);
  EXPECT_EQ(error_of([&] {
              both->run({{buffer.get()}, {}}, {kTransposed, kMatrix});
            }),
            "replicas of a program were given 1 and 0 arguments");
  const std::string too_few = error_of([&] { program->run({{}}, {kMatrix}); });
  EXPECT_TRUE(too_few.starts_with("running a program: ")) << too_few;
}

TEST_F(Pjrt, MoreReplicasThanDevicesAreRefused) {
  EXPECT_EQ(error_of([] { client_->compile(kTransposeAndSum, 3); }), "a mesh of 3 devices, but the plugin has 2");
  EXPECT_EQ(error_of([] { client_->compile(kTransposeAndSum, 0); }), "xla: a program for 0 replicas");
}

TEST_F(Pjrt, DeviceIdsDecideWhichDeviceAReplicaIsOn) {
  const std::unique_ptr<PjrtProgram> program =
      client_->compile(kDoubleDonated, XlaCompileOptions{.replicas = 1, .device_ids = {1}, .flags = {}});
  const std::unique_ptr<PjrtBuffer> argument = put(1, kMatrix, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(read(*program->run({{argument.get()}}, {kMatrix}).at(0).at(0)), (std::vector<float>{2, 4, 6, 8, 10, 12}));
  const std::unique_ptr<PjrtBuffer> elsewhere = put(0, kMatrix, {1, 2, 3, 4, 5, 6});
  EXPECT_THROW(program->run({{elsewhere.get()}}, {kMatrix}), Error);
}

TEST_F(Pjrt, FlagsReachTheCompiler) {
  const auto compile = [](const XlaFlags& flags) {
    return client_->compile(kTransposeAndSum, XlaCompileOptions{.replicas = 2, .device_ids = {}, .flags = flags});
  };
  EXPECT_NO_THROW(compile({{"xla_cpu_enable_fast_math", false}, {"xla_dump_to", std::string()}}));
  const std::string unknown = error_of([&] { compile({{"xla_no_such_flag", true}}); });
  EXPECT_NE(unknown.find("xla_no_such_flag"), std::string::npos) << unknown;
}

TEST_F(Pjrt, SerializedProgramsRunWithoutBeingCompiledAgain) {
  const std::string bytes = client_->compile(kTransposeAndSum, 2)->serialized();
  const std::unique_ptr<PjrtProgram> program = client_->load(bytes);
  const std::unique_ptr<PjrtBuffer> first = put(0, kMatrix, {1, 2, 3, 4, 5, 6});
  const std::unique_ptr<PjrtBuffer> second = put(1, kMatrix, {10, 20, 30, 40, 50, 60});
  const std::vector<PjrtProgram::Results> results =
      program->run({{first.get()}, {second.get()}}, {kTransposed, kMatrix});
  EXPECT_EQ(read(*results.at(1).at(0)), (std::vector<float>{10, 40, 20, 50, 30, 60}));
  EXPECT_EQ(read(*results.at(1).at(1)), (std::vector<float>{11, 22, 33, 44, 55, 66}));
  const std::string broken = error_of([&] { client_->load("not a program"); });
  EXPECT_TRUE(broken.starts_with("loading a compiled program: ")) << broken;
}

TEST_F(Pjrt, DescribesThePlugin) {
  const PjrtDescription& description = client_->description();
  EXPECT_EQ(description.platform, "cpu");
  EXPECT_EQ(description.devices, 2);
  EXPECT_TRUE(description.api_version.starts_with("0.")) << description.api_version;
  EXPECT_EQ(std::ranges::count(description.stablehlo_version, '.'), 2) << description.stablehlo_version;
  EXPECT_EQ(to_string(PjrtDescription{"cpu", "", "0.115", "1.20.0", 4}),
            "cpu, PJRT API 0.115, StableHLO 1.20.0, 4 devices");
  EXPECT_EQ(to_string(PjrtDescription{"tpu", "", "0.81", "", 1}), "tpu, PJRT API 0.81, 1 device");
}

/// Opens a plugin with a fault.
class PjrtBrokenPlugin : public ::testing::TestWithParam<std::pair<std::string, std::string>> {
 protected:
  void SetUp() override {
    if (!PjrtClient::built_in()) GTEST_SKIP() << "built without the header of the PJRT C interface";
    ::setenv("MAXTEXT_TEST_PLUGIN_FAULT", GetParam().first.c_str(), 1);
  }
  void TearDown() override { ::unsetenv("MAXTEXT_TEST_PLUGIN_FAULT"); }
};

TEST_P(PjrtBrokenPlugin, IsNamedWithItsFault) {
  const std::string file = MAXTEXT_FAKE_PJRT_PLUGIN;
  const std::string expected = fmt::format(fmt::runtime(GetParam().second), fmt::arg("file", file));
  const std::string error = error_of([&] { PjrtClient::open(file, 1); });
  EXPECT_TRUE(error.starts_with(expected)) << error;
}

INSTANTIATE_TEST_SUITE_P(
    Faults, PjrtBrokenPlugin,
    ::testing::Values(
        std::pair("null", "{file} is no PJRT plugin: its GetPjrtApi returns nothing"),
        std::pair("major", "PJRT plugin {file} has version 7.81 of the interface, but maxtext was built for 0.x"),
        std::pair("old",
                  "PJRT plugin {file} is too old: its interface, version 0.81, lacks functions that maxtext calls"),
        std::pair("initialize", "PJRT plugin {file} refuses to start: the words of the plugin"),
        std::pair("client", "PJRT plugin {file} finds no devices: the words of the plugin")),
    [](const auto& instance) { return instance.param.first; });

}  // namespace
}  // namespace maxtext::testing
