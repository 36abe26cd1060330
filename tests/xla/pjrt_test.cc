// The PJRT client: buffers on devices, programs over them, what wrong use and broken plugins say.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "engines/xla/pjrt_client.h"
#include "xla/plugin.h"

namespace maxtext::testing {
namespace {

const TensorSpec kMatrix{{2, 3}, DType::float32};
const TensorSpec kTransposed{{3, 2}, DType::float32};

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

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

}  // namespace
}  // namespace maxtext::testing
