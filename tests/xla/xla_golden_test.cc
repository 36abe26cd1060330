// The goldens of MaxText's training and of Hugging Face's forward, on programs that a PJRT plugin has compiled.
#include <gtest/gtest.h>

#include "inference/forward_logits.h"
#include "model/tensor_parallel.h"
#include "testing/compare.h"
#include "testing_model/hf_fixture.h"
#include "testing_model/maxtext_fixture.h"
#include "xla/virtual_devices.h"

namespace maxtext::testing {
namespace {

class XlaGolden : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_plugin(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

/// Both fixtures are trained by one program: what is packed is in its inputs. So packing costs no compilation here, and
/// a program that depended on the documents would be compiled for every step.
TEST_F(XlaGolden, TrainsAsMaxTextOnOneDevice) {
  const VirtualDevices devices(1);
  for (const std::string name : {"train_unpacked", "train_packed"}) {
    SCOPED_TRACE(name);
    const MaxTextFixture fixture(name);
    fixture.expect_matches(fixture.train({.make_engine = devices}), "loss_cp1", "grad_norm_before_clip_cp1");
  }
  EXPECT_LE(devices.runtime().compiled_programs(), 2);
}

TEST_F(XlaGolden, TrainsAsMaxTextWithContextParallelismFour) {
  const VirtualDevices devices(4);
  for (const std::string name : {"train_unpacked", "train_packed"}) {
    SCOPED_TRACE(name);
    const MaxTextFixture fixture(name);
    fixture.expect_matches(fixture.train({.mesh = {1, 1, 4, 1}, .remat = "full", .make_engine = devices}),
                           "loss_cp4_load_balanced", "grad_norm_before_clip_cp4");
  }
  EXPECT_LE(devices.runtime().compiled_programs(), 2);
}

std::vector<float> logits_on(const VirtualDevices& devices, const Mesh& mesh, const HfFixture& fixture) {
  const DecodeEnvironment environment{
      .make_engine = [&](Communicator& communicator, int) { return devices(communicator); }, .threads_per_device = 1};
  return forward_logits(fixture.shape(), fixture.weights(), fixture.ids("long"), mesh, ReorderStrategy::automatic,
                        environment);
}

class XlaHfModel : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const std::string reason = why_no_plugin(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_P(XlaHfModel, LogitsOfEveryPositionAreTransformers) {
  const HfFixture fixture(GetParam());
  const std::vector<float> logits = logits_on(VirtualDevices(1), Mesh({1, 1, 1, 1}), fixture);
  EXPECT_LE(max_abs_difference(logits, read_as_float(fixture.golden(), "long.logits")), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, XlaHfModel, ::testing::ValuesIn(HfFixture::names()), [](const auto& instance) {
  std::string name = instance.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

/// One that has windows, over the sequence and over rows that are the same: devices without the first row run, too.
TEST_F(XlaGolden, LogitsOfEveryPositionAreTransformersOnEightDevices) {
  const HfFixture fixture("gemma2");
  const std::vector<float> logits = logits_on(VirtualDevices(8), model_mesh(fixture.shape(), {1, 2, 2, 2}), fixture);
  EXPECT_LE(max_abs_difference(logits, read_as_float(fixture.golden(), "long.logits")), 1e-4);
}

}  // namespace
}  // namespace maxtext::testing
