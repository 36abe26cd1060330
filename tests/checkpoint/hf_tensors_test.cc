// The text model in a multimodal Hugging Face directory.
#include "checkpoint/hf_tensors.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/hf_export.h"
#include "checkpoint/hf_import.h"
#include "checkpoint/weight_source.h"
#include "model/hf_config.h"
#include "testing/fixtures.h"
#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// The gemma3 fixture as transformers stores a multimodal model, `prefix` in front of what follows `model.`.
class MultimodalDirectory : public ::testing::TestWithParam<std::string> {
 protected:
  MultimodalDirectory() : text_(testing::find_fixtures("hf/models/gemma3").front()) {
    const SafetensorsFile weights(text_ / "model.safetensors");
    const std::vector<float> pixels(6, 1.0F);
    std::vector<NamedBytes> tensors = {{"vision_tower.patch.weight", {{2, 3}, DType::float32}, bytes_of(pixels)},
                                       {"multi_modal_projector.norm.weight", {{6}, DType::float32}, bytes_of(pixels)}};
    for (const SafetensorsEntry& entry : weights.entries()) {
      tensors.push_back({GetParam() + entry.name.substr(6), entry.spec, entry.bytes});
    }
    fs::create_directories(directory());
    write_safetensors(directory() / "model.safetensors", tensors);
    json text = json::parse(testing::read_file(text_ / "config_v4.json"));
    const json config = {{"architectures", {"Gemma3ForConditionalGeneration"}},
                         {"model_type", "gemma3"},
                         {"text_config", text},
                         {"vision_config", {{"hidden_size", 8}}}};
    testing::write_file(directory() / "config.json", config.dump());
  }

  static std::span<const std::byte> bytes_of(const std::vector<float>& values) {
    return std::as_bytes(std::span(values));
  }
  fs::path directory() const { return folder_.path() / "multimodal"; }

  void expect_text_model(const WeightSource& weights) const {
    const SafetensorsFile expected(text_ / "model.safetensors");
    EXPECT_EQ(weights.names().size(), expected.entries().size());
    for (const SafetensorsEntry& entry : expected.entries()) {
      ASSERT_TRUE(weights.contains(entry.name)) << entry.name;
      EXPECT_EQ(weights.spec(entry.name), entry.spec);
      std::vector<float> values(static_cast<std::size_t>(entry.spec.elements()));
      weights.read_range_as_float(entry.name, 0, values);
      EXPECT_EQ(values, read_as_float(expected, entry.name)) << entry.name;
    }
    EXPECT_FALSE(weights.contains("vision_tower.patch.weight"));
    EXPECT_TRUE(parse_hf_config(weights.hf_config().dump(), "config.json") == read_hf_config(text_));
  }

  fs::path text_;
  testing::TemporaryDirectory folder_;
};

TEST_P(MultimodalDirectory, IsReadAsItsTextModel) {
  expect_text_model(*open_weights(directory()));
  EXPECT_TRUE(read_hf_config(directory()) == read_hf_config(text_));
}

TEST_P(MultimodalDirectory, IsImportedAndExportedAsItsTextModel) {
  SaveOptions options;
  options.run_directory = folder_.path() / "run";
  import_hf_directory(directory(), options);
  const auto imported = open_weights(folder_.path() / "run");
  expect_text_model(*imported);
  PosixFileLayer files;
  export_hf_directory(*imported, folder_.path() / "exported", {}, files);
  expect_text_model(*open_weights(folder_.path() / "exported"));
  EXPECT_EQ(open_weights(folder_.path() / "exported")->hf_config().at("model_type"), "gemma3_text");
}

INSTANTIATE_TEST_SUITE_P(Spellings, MultimodalDirectory,
                         ::testing::Values("language_model.model.", "model.language_model."),
                         [](const auto& instance) { return instance.param.starts_with("model") ? "inner" : "outer"; });

TEST(HfTensors, AMissingTensorNamesTheDirectory) {
  const fs::path directory = testing::find_fixtures("hf/models/gemma2").front();
  try {
    HfTensors(directory).at("model.layers.9.x");
    FAIL() << "found";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("gemma2"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace maxtext
