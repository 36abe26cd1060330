#include "testing_model/hf_fixture.h"

#include "model/hf_config.h"
#include "testing/compare.h"
#include "testing/fixtures.h"

namespace maxtext::testing {

HfFixture::HfFixture(const std::string& name)
    : directory_(find_fixtures("hf/models/" + name).front()),
      shape_(read_hf_config(directory_)),
      weights_(open_weights(directory_)),
      golden_(std::make_unique<SafetensorsFile>(directory_ / "golden.safetensors")) {}

std::vector<std::string> HfFixture::names() {
  std::vector<std::string> names;
  for (const auto& golden : find_fixtures("hf/models/*/golden.safetensors")) {
    names.push_back(golden.parent_path().filename().string());
  }
  return names;
}

std::vector<std::int32_t> HfFixture::ids(const std::string& prompt) const {
  const std::vector<std::int64_t> wide = read_as_int64(*golden_, prompt + ".input_ids");
  return {wide.begin(), wide.end()};
}

RowBatch HfFixture::batch(const std::string& prompt) const {
  const std::vector<std::int32_t> row = ids(prompt);
  RowBatch batch = padding_batch(1, std::ssize(row));
  fill_row(batch, 0, row, {std::ssize(row)});
  return batch;
}

}  // namespace maxtext::testing
