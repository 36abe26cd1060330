#include "testing/example_state.h"

#include <gtest/gtest.h>

#include "testing/compare.h"

namespace maxtext::testing {
namespace {

/// The k-th of n + 1 cuts of [0, elements), denser towards the end.
std::int64_t cut(std::int64_t elements, int k, int n) { return elements * k * (2 * n - k) / (n * n); }

}  // namespace

ExampleState::ExampleState(std::int64_t step) : step_(step) {
  const std::vector<std::pair<std::string, Shape>> shapes{{"model.embed_tokens.weight", {17, 8}},
                                                          {"model.layers.0.mlp.up_proj.weight", {12, 8}},
                                                          {"model.norm.weight", {3}}};
  float seed = static_cast<float>(step) * 1000;
  for (const std::string_view kind : {kWeights, kFirstMoment, kSecondMoment}) {
    for (const auto& [name, shape] : shapes) {
      Value& value = values_[Key(kind, name)];
      value.spec = {shape, DType::float32};
      value.data.resize(static_cast<std::size_t>(element_count(shape)));
      for (float& element : value.data) element = (seed += 0.37F);
    }
  }
}

std::vector<DeviceState> ExampleState::owned_by(int owners) const {
  std::vector<DeviceState> devices(static_cast<std::size_t>(owners));
  for (int owner = 0; owner < owners; ++owner) {
    devices[static_cast<std::size_t>(owner)].device = owner;
    for (const auto& [key, value] : values_) {
      const std::int64_t elements = value.spec.elements();
      const bool whole = value.spec.shape.size() == 1;
      if (whole && owner != static_cast<int>(key.first.size()) % owners) continue;
      const std::int64_t first = whole ? 0 : cut(elements, owner, owners);
      const std::int64_t count = (whole ? elements : cut(elements, owner + 1, owners)) - first;
      const auto bytes = std::as_bytes(
          std::span(value.data).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
      devices[static_cast<std::size_t>(owner)].ranges.push_back(
          {key.first, key.second, value.spec, first, count, bytes});
    }
  }
  return devices;
}

CheckpointInfo ExampleState::info() const {
  return {step_,
          {{"row", step_ * 4}, {"epoch", 1}},
          {{"seed", 0xfedcba9876543210ULL}, {"loss", 0.1 + 0.2}},
          {{"learning_rate", 3e-5}},
          {{"model_type", "llama"}, {"dtype", "float32"}}};
}

void ExampleState::expect_equal(const CheckpointReader& reader, int parts) const {
  EXPECT_EQ(reader.info().step, step_);
  EXPECT_EQ(reader.info().cursor, info().cursor);
  EXPECT_EQ(reader.info().trainer, info().trainer);
  EXPECT_EQ(reader.info().config, info().config);
  EXPECT_EQ(reader.info().hf_config, info().hf_config);
  std::size_t tensors = 0;
  for (const std::string& kind : reader.kinds()) tensors += reader.names(kind).size();
  EXPECT_EQ(tensors, values_.size());
  for (const auto& [key, value] : values_) {
    const auto& [kind, name] = key;
    ASSERT_TRUE(reader.contains(kind, name)) << kind << ' ' << name;
    ASSERT_EQ(reader.spec(kind, name), value.spec);
    std::vector<float> read(value.data.size());
    for (int part = 0; part < parts; ++part) {
      const std::int64_t first = value.spec.elements() * part / parts;
      const std::int64_t count = value.spec.elements() * (part + 1) / parts - first;
      reader.read_range(kind, name, first, count,
                        std::as_writable_bytes(
                            std::span(read).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count))));
    }
    EXPECT_TRUE(bitwise_equal(read, value.data, kind + " " + name));
  }
}

void ExampleState::update() {
  for (auto& [key, value] : values_) {
    for (float& element : value.data) element = element * 0.5F + 1;
  }
}

}  // namespace maxtext::testing
