#include "checkpoint/hf_export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/reader.h"
#include "tensor/half.h"
#include "tensor/safetensors.h"
#include "testing/compare.h"
#include "testing/example_state.h"
#include "testing/faulty_file_layer.h"
#include "testing/fixtures.h"
#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::ExampleState;
using testing::Fault;
using testing::FaultyFileLayer;
using ::testing::HasSubstr;

class HfExportTest : public ::testing::Test {
 protected:
  HfExportTest() {
    SaveOptions options;
    options.run_directory = root() / "run";
    options.device_count = 3;
    save_checkpoint(options, state_.info(), state_.owned_by(3));
  }

  std::filesystem::path root() const { return directory_.path(); }
  std::filesystem::path out() const { return root() / "exported"; }

  void export_run(const ExportOptions& options) {
    PosixFileLayer files;
    export_hf_directory(*open_weights(root() / "run"), out(), options, files);
  }

  std::string error_of(const std::function<void()>& work) const {
    try {
      work();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  void expect_weights(const WeightSource& weights, DType dtype) {
    for (const auto& [key, value] : state_.values()) {
      if (key.first != kWeights) continue;
      ASSERT_EQ(weights.spec(key.second), (TensorSpec{value.spec.shape, dtype}));
      std::vector<float> expected = value.data;
      if (dtype == DType::bfloat16) {
        for (float& element : expected) element = bfloat16_to_float(float_to_bfloat16(element));
      }
      std::vector<float> read(expected.size());
      weights.read_range_as_float(key.second, 0, read);
      EXPECT_TRUE(testing::bitwise_equal(read, expected, key.second));
    }
  }

  ExampleState state_{5};

 private:
  testing::TemporaryDirectory directory_;
};

TEST_F(HfExportTest, RoundTripIsBitwise) {
  export_run({});
  EXPECT_TRUE(std::filesystem::exists(out() / "model.safetensors"));
  EXPECT_EQ(SafetensorsFile(out() / "model.safetensors").metadata().at("format"), "pt");
  const auto weights = open_weights(out());
  EXPECT_EQ(weights->names().size(), 3U);
  expect_weights(*weights, DType::float32);
  EXPECT_EQ(weights->hf_config(), state_.info().hf_config);
}

TEST_F(HfExportTest, Bfloat16RoundsToTheNearest) {
  export_run({DType::bfloat16, 1000});
  expect_weights(*open_weights(out()), DType::bfloat16);
  EXPECT_EQ(open_weights(out())->hf_config().at("dtype"), "bfloat16");
}

TEST_F(HfExportTest, ShardsHaveAnIndex) {
  export_run({DType::float32, 600});
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(out())) names.push_back(entry.path().filename());
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre("config.json", "model.safetensors.index.json",
                                              "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"));
  expect_weights(*open_weights(out()), DType::float32);
  const auto index = nlohmann::json::parse(testing::read_file(out() / "model.safetensors.index.json"));
  EXPECT_EQ(index.at("metadata").at("total_size"), 4 * (17 * 8 + 12 * 8 + 3));
}

TEST_F(HfExportTest, RefusesAnOccupiedDirectoryAndWeightsWithoutConfig) {
  export_run({});
  EXPECT_THAT(error_of([&] { export_run({}); }), AllOf(HasSubstr(out().string()), HasSubstr("exists already")));
  PosixFileLayer files;
  const auto bare = open_weights(out() / "model.safetensors");
  EXPECT_THAT(error_of([&] { export_hf_directory(*bare, root() / "other", {}, files); }), HasSubstr("config.json"));
  EXPECT_FALSE(std::filesystem::exists(root() / "other"));
}

TEST_F(HfExportTest, AFailureAtAnyCallLeavesNothing) {
  const auto weights = open_weights(root() / "run");
  for (int at_call = 1;; ++at_call) {
    FaultyFileLayer files(Fault::fail_once, at_call);
    const std::string error = error_of([&] { export_hf_directory(*weights, out(), {DType::float32, 600}, files); });
    if (!files.reached()) break;
    EXPECT_NE(error, "no error") << at_call;
    // Only the very last sync comes after the directory, which is whole by then, has its name.
    if (std::filesystem::exists(out())) {
      expect_weights(*open_weights(out()), DType::float32);
      std::filesystem::remove_all(out());
    }
    std::size_t entries = 0;
    for (const auto& entry : std::filesystem::directory_iterator(root())) entries += entry.exists() ? 1 : 0;
    EXPECT_EQ(entries, 1U) << "only the run is there after call " << at_call;
  }
}

TEST_F(HfExportTest, EveryFormOfSourceOpens) {
  expect_weights(*open_weights(root() / "run"), DType::float32);
  expect_weights(*open_weights(step_directory(root() / "run", 5)), DType::float32);
  expect_weights(*open_weights(step_directory(root() / "run", 5) / "items"), DType::float32);
  EXPECT_THAT(error_of([&] { open_weights(root() / "nothing"); }), HasSubstr((root() / "nothing").string()));
  std::filesystem::create_directories(root() / "empty" / "checkpoints");
  EXPECT_THAT(error_of([&] { open_weights(root() / "empty"); }), HasSubstr("without a complete checkpoint"));
}

TEST(HfExportFixtures, ABfloat16ModelSurvivesImportAndExportBitForBit) {
  const testing::TemporaryDirectory directory;
  for (const auto& model : testing::find_fixtures("hf/models/llama*")) {
    if (!std::filesystem::exists(model / "config.json")) continue;
    const auto original = open_weights(model);
    const DType dtype = original->spec(original->names().front()).dtype;
    const std::filesystem::path out = directory.path() / model.filename();
    PosixFileLayer files;
    export_hf_directory(*original, out, {dtype, 20000}, files);
    const SafetensorsSet before(model);
    const SafetensorsSet after(out);
    ASSERT_EQ(after.names(), before.names());
    for (const std::string& name : before.names()) {
      EXPECT_EQ(after.at(name).spec, before.at(name).spec) << name;
      EXPECT_TRUE(std::ranges::equal(after.at(name).bytes, before.at(name).bytes)) << model << name;
    }
  }
}

}  // namespace
}  // namespace maxtext
