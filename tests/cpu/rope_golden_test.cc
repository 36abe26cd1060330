// RoPE against MaxText's own values (fixtures: maxtext/rope.json).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cpu/device.h"
#include "ops/rope_frequencies.h"
#include "testing/compare.h"
#include "testing/fixtures.h"

namespace maxtext::testing {
namespace {

using nlohmann::json;
using Doubles = std::vector<double>;

json rope_fixture() {
  std::ifstream file(find_fixtures("maxtext/rope.json").at(0));
  return json::parse(file);
}

void expect_relative(const Doubles& found, const Doubles& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i] / expected[i], 1, tolerance) << i;
}

/// The rows of a [positions][n] matrix one after another.
Doubles flat(const json& rows) {
  Doubles values;
  for (const json& row : rows) {
    for (const json& value : row) values.push_back(value.get<double>());
  }
  return values;
}

std::vector<Tensor> tables(Engine& engine, const Doubles& frequencies, const json& positions) {
  const auto ids = positions.get<std::vector<std::int32_t>>();
  const Tensor input = put(engine, {1, static_cast<std::int64_t>(ids.size())}, ids);
  return engine.apply(RopeTable{.inverse_frequencies = frequencies}, {input});
}

void expect_close(Engine& engine, const Tensor& found, const Doubles& expected, double tolerance) {
  const std::vector<float> values = get<float>(engine, found);
  const Doubles actual(values.begin(), values.end());
  EXPECT_TRUE(all_close(std::span<const double>(actual), std::span<const double>(expected), tolerance));
}

TEST(RopeGolden, Plain) {
  CpuDevice device;
  int rotated = 0;
  const json fixture = rope_fixture();
  for (const json& entry : fixture.at("plain")) {
    const auto head_dim = entry.at("head_dim").get<std::int64_t>();
    const Doubles frequencies = rope_inverse_frequencies(head_dim, entry.at("theta").get<double>());
    expect_relative(frequencies, entry.at("inv_freq_fp64").get<Doubles>(), 1e-12);
    expect_relative(frequencies, entry.at("inv_freq").get<Doubles>(), 1e-6);
    if (!entry.contains("cos_fp64")) continue;
    const std::vector<Tensor> found = tables(*device, frequencies, entry.at("positions"));
    expect_close(*device, found[0], flat(entry.at("cos_fp64")), 1e-6);
    expect_close(*device, found[1], flat(entry.at("sin_fp64")), 1e-6);
    expect_close(*device, found[0], flat(entry.at("cos")), 2e-3);
    const Doubles x = flat(entry.at("x"));
    const auto positions = static_cast<std::int64_t>(entry.at("positions").size());
    const Tensor input = put(*device, {1, positions, 1, head_dim}, std::vector<float>(x.begin(), x.end()));
    expect_close(*device, device->apply_one(Rope{}, {input, found[0], found[1]}), flat(entry.at("rotated")), 2e-3);
    ++rotated;
  }
  EXPECT_GE(rotated, 1);
}

TEST(RopeGolden, Llama31) {
  CpuDevice device;
  const json fixture = rope_fixture();
  ASSERT_FALSE(fixture.at("llama31").empty());
  for (const json& entry : fixture.at("llama31")) {
    const auto head_dim = entry.at("head_dim").get<std::int64_t>();
    const Llama3Scaling scaling{.factor = entry.at("factor").get<double>(),
                                .low_factor = entry.at("low_freq_factor").get<double>(),
                                .high_factor = entry.at("high_freq_factor").get<double>(),
                                .original_length = entry.at("original_max_position").get<double>()};
    const Doubles frequencies =
        llama3_scaled(rope_inverse_frequencies(head_dim, entry.at("theta").get<double>()), scaling);
    expect_relative(frequencies, entry.at("inv_freq_fp64").get<Doubles>(), 1e-12);
    // MaxText rotates neighbouring pairs here: (2i, 2i+1) there is (i, i + D/2) with us.
    const auto halves = [&](const json& rows) {
      const Doubles pairs = flat(rows);
      const auto width = static_cast<std::size_t>(head_dim);
      Doubles result(pairs.size());
      for (std::size_t k = 0; k < pairs.size(); ++k) {
        const std::size_t row = k / width, i = k % width;
        result[row * width + i / 2 + i % 2 * width / 2] = pairs[k];
      }
      return result;
    };
    const Doubles x = halves(entry.at("interleaved_x"));
    const std::vector<Tensor> found = tables(*device, frequencies, entry.at("positions"));
    const auto positions = entry.at("positions").get<std::vector<std::int64_t>>();
    const auto count = static_cast<std::int64_t>(positions.size());
    const Tensor input = put(*device, {1, count, 1, head_dim}, std::vector<float>(x.begin(), x.end()));
    const std::vector<float> rotated = get<float>(*device, device->apply_one(Rope{}, {input, found[0], found[1]}));
    const Doubles expected = halves(entry.at("interleaved_rotated"));
    // The fixture's angles are float32: off by its own frequencies' error and one rounding, times the position.
    const double angle_error = entry.at("max_rel_diff_vs_fp64").get<double>() + 0x1p-24;
    for (std::size_t row = 0; row < positions.size(); ++row) {
      const auto width = static_cast<std::size_t>(head_dim);
      const Doubles actual(rotated.begin() + static_cast<std::ptrdiff_t>(row * width),
                           rotated.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
      const double tolerance = 1e-6 + static_cast<double>(positions[row]) * angle_error;
      EXPECT_TRUE(
          all_close(std::span<const double>(actual), std::span(expected).subspan(row * width, width), tolerance));
    }
  }
}

}  // namespace
}  // namespace maxtext::testing
