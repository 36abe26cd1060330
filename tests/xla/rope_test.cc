// Tables of rotary embeddings at positions where float32 angles are off.
#include <cmath>

#include "xla/ops_on_plugin.h"

namespace maxtext::testing {
namespace {

std::vector<double> frequencies(double base, std::int64_t half) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < half; ++i) {
    result.push_back(std::pow(base, -static_cast<double>(i) / static_cast<double>(half)));
  }
  return result;
}

/// Against the formula in double, which is good to 2⁻⁵³ · angle.
class XlaRopeOnPlugin : public XlaOpsOnPlugin {
 protected:
  void expect_exact(const RopeTable& op, const std::vector<std::int32_t>& positions) {
    const auto count = std::ssize(positions);
    const auto half = std::ssize(op.inverse_frequencies);
    const auto value = [&](std::int64_t p, std::int64_t i, bool sine) {
      const double angle = positions[static_cast<std::size_t>(p)] * op.inverse_frequencies[static_cast<std::size_t>(i)];
      return op.attention_factor * (sine ? std::sin(angle) : std::cos(angle));
    };
    XlaEngine xla(kOneDevice, 0, runtime_);
    const std::vector<Tensor> tables =
        xla.apply(op, std::vector<Tensor>{input_of<std::int32_t>(xla, {1, count}, positions)});
    for (const bool sine : {false, true}) {
      const std::vector<float> actual = read_floats(xla, tables[sine ? 1 : 0]);
      double worst = 0;
      for (std::int64_t p = 0; p < count; ++p) {
        for (std::int64_t i = 0; i < half; ++i) {
          const double difference =
              static_cast<double>(actual[static_cast<std::size_t>(p * half + i)]) - value(p, i, sine);
          worst = std::max(worst, std::abs(difference));
        }
      }
      EXPECT_LE(worst, 3e-7 * op.attention_factor) << (sine ? "sine" : "cosine");
    }
    EXPECT_EQ(xla.last_program().find("f64"), std::string::npos);
  }
};

TEST_F(XlaRopeOnPlugin, TablesAreExactAtAnyPosition) {
  const std::vector<std::int32_t> positions = {0,     1,      2,      3,      4,       127,     128,      8191,
                                               16383, 131071, 131072, 500000, 1048575, 1048576, 123456789};
  for (const double base : {1e4, 5e5, 1e6}) expect_exact({.inverse_frequencies = frequencies(base, 64)}, positions);
  expect_exact({.inverse_frequencies = frequencies(1e4, 8), .attention_factor = 1.3}, positions);
}

TEST_F(XlaRopeOnPlugin, EveryQuarterOfATurnHasItsSigns) {
  // Degrees: half-way between quarters is where the nearest quarter changes.
  const double degree = std::atan(1.0) / 45;
  std::vector<std::int32_t> degrees(721);
  for (std::size_t i = 0; i < degrees.size(); ++i) degrees[i] = static_cast<std::int32_t>(i);
  expect_exact({.inverse_frequencies = {degree, 7 * degree, 1000 * degree}}, degrees);
}

TEST_F(XlaRopeOnPlugin, ProgramsInDoubleKeepDoubleTables) {
  expect_equal([](Engine& engine) -> std::vector<Tensor> {
    const std::vector<Tensor> tables =
        engine.apply(RopeTable{.inverse_frequencies = frequencies(5e5, 4), .dtype = DType::float64},
                     std::vector<Tensor>{input_of<std::int32_t>(engine, {1, 3}, {0, 131071, 500000})});
    const std::vector<float> half = some_values(3 * 2 * 8, 0);
    const Tensor x = engine.apply_one(Cast{DType::float64}, {input_of<float>(engine, {1, 3, 2, 8}, half)});
    const Tensor y = engine.apply_one(Rope{}, {x, tables[0], tables[1]});
    return {engine.apply_one(Cast{DType::float32}, {y})};
  });
}

TEST_F(XlaRopeOnPlugin, RotatesAndRotatesBack) {
  expect_equal([](Engine& engine) -> std::vector<Tensor> {
    const std::vector<Tensor> tables =
        engine.apply(RopeTable{.inverse_frequencies = frequencies(5e5, 4)},
                     std::vector<Tensor>{input_of<std::int32_t>(engine, {2, 3}, {0, 131071, 500000, 7, 1, 99999})});
    const Tensor x = input_of<float>(engine, {2, 3, 2, 8}, some_values(96, 0));
    const Tensor y = engine.apply_one(Rope{}, {x, tables[0], tables[1]});
    return {y, engine.apply_one(Rope{.inverse = true}, {y, tables[0], tables[1]})};
  });
}

}  // namespace
}  // namespace maxtext::testing
