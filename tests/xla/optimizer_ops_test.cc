// Norm, clipping and updates of shards: ops/optimizer.h and ops/reduction.h.
#include <algorithm>
#include <limits>

#include "xla/ops_on_plugin.h"

namespace maxtext::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Tensor ranges_of(Engine& engine, const std::vector<std::int64_t>& bounds) {
  return engine.input({{std::ssize(bounds) / 2, 2}, DType::int64}, std::as_bytes(std::span(bounds)));
}

Tensor as_floats(Engine& engine, const Tensor& x) { return engine.apply_one(Cast{DType::float32}, {x}); }

/// ClipFactor of the sum of squares of `x`.
std::vector<Tensor> clip_of(Engine& engine, const Tensor& x, double threshold) {
  const Tensor squares = engine.apply_one(SumOfSquares{}, {x, ranges_of(engine, {0, x.elements()})});
  return engine.apply(ClipFactor{.threshold = threshold}, std::vector<Tensor>{squares});
}

/// new − old, which is zero everywhere only where every element stayed.
Tensor change(Engine& engine, const Tensor& now, const std::vector<float>& before) {
  const Tensor old = input_of<float>(engine, now.shape(), before);
  return engine.apply_one(Add{}, {now, engine.apply_one(Scale{.factor = -1}, {old})});
}

TEST_F(XlaOpsOnPlugin, SumsOfSquaresOverRangesThatCrossBlocks) {
  // Ranges within one block of 8192, over block boundaries, of whole blocks, to the short last block, and empty ones.
  const std::vector<std::int64_t> bounds = {0,     20000, 5,    17,   100,   8192,  8192,  16384, 8191,  8193,
                                            16000, 20000, 8192, 8192, 20000, 20000, 12000, 11000, 19000, 19999};
  expect_equal([&](Engine& engine) -> std::vector<Tensor> {
    const Tensor x = input_of<float>(engine, {20000}, some_values(20000, 0));
    std::vector<Tensor> results;
    // One at a time, since a sum is to be right on its own scale.
    for (std::size_t i = 0; i < bounds.size(); i += 2) {
      const Tensor one = ranges_of(engine, {bounds[i], bounds[i + 1]});
      results.push_back(as_floats(engine, engine.apply_one(SumOfSquares{}, {x, one})));
    }
    results.push_back(as_floats(engine, engine.apply_one(SumOfSquares{}, {x, ranges_of(engine, bounds)})));
    return results;
  });
}

TEST_F(XlaOpsOnPlugin, SumsOfSquaresLeaveOutWhatLiesOutsideOfARange) {
  std::vector<float> values = some_values(30000, 1);
  values[10] = values[8000] = values[20000] = kNaN;
  expect_equal([&](Engine& engine) -> std::vector<Tensor> {
    const Tensor x = input_of<float>(engine, {30000}, values);
    const Tensor ranges = ranges_of(engine, {0, 10, 11, 8000, 8001, 20000, 20001, 30000});
    const Tensor few = input_of<float>(engine, {7}, {1, kNaN, 3, 4, 5, kNaN, 7});
    const Tensor few_ranges = ranges_of(engine, {2, 5, 6, 7, 3, 3});
    return {as_floats(engine, engine.apply_one(SumOfSquares{}, {x, ranges})),
            as_floats(engine, engine.apply_one(SumOfSquares{}, {few, few_ranges}))};
  });
}

TEST_F(XlaOpsOnPlugin, SumsOfEqualSquaresDoNotDrift) {
  // Rounding errors of equal terms do not cancel: 0.1² added a million times in one float32 would be 1e-3 off.
  expect_equal([](Engine& engine) -> std::vector<Tensor> {
    const Tensor x = input_of<float>(engine, {1 << 20}, std::vector<float>(1 << 20, 0.1F));
    return {as_floats(engine, engine.apply_one(SumOfSquares{}, {x, ranges_of(engine, {3, (1 << 20) - 5})}))};
  });
}

TEST_F(XlaOpsOnPlugin, ClipsTheGradientsNorm) {
  expect_equal([](Engine& engine) -> std::vector<Tensor> {
    std::vector<Tensor> results;
    const Tensor x = input_of<float>(engine, {100}, some_values(100, 0));  // a norm of about 7
    const Tensor wrong = input_of<float>(engine, {2}, {1, std::numeric_limits<float>::infinity()});
    for (const double threshold : {0.0, 1.0, 100.0}) {
      for (const Tensor& tensor : clip_of(engine, x, threshold)) results.push_back(tensor);
      results.push_back(clip_of(engine, wrong, threshold)[0]);
    }
    return results;
  });
}

TEST_F(XlaOpsOnPlugin, AdamWUpdatesInPlace) {
  for (const double epsilon_root : {0.0, 1e-3}) {
    expect_equal([&](Engine& engine) -> std::vector<Tensor> {
      const Tensor gradient = input_of<float>(engine, {500}, some_values(500, 0));
      std::vector<float> squares = some_values(500, 2);
      for (float& square : squares) square *= square;
      std::vector<Tensor> state = {input_of<float>(engine, {500}, some_values(500, 1)), gradient,
                                   input_of<float>(engine, {500}, some_values(500, 3)),
                                   input_of<float>(engine, {500}, squares),
                                   input_of<float>(engine, {3}, {3e-2F, 0.271F, 0.142625F})};
      state.push_back(clip_of(engine, gradient, 1)[0]);
      engine.apply(AdamW{.epsilon_root = epsilon_root}, state);
      return {state[0], state[2], state[3]};
    });
  }
}

TEST_F(XlaOpsOnPlugin, SgdUpdatesInPlace) {
  expect_equal([](Engine& engine) -> std::vector<Tensor> {
    const Tensor gradient = input_of<float>(engine, {500}, some_values(500, 0));
    const Tensor parameter = input_of<float>(engine, {500}, some_values(500, 1));
    const Tensor schedule = input_of<float>(engine, {3}, {0.5F, 1, 1});
    engine.apply(Sgd{}, std::vector<Tensor>{parameter, gradient, schedule, clip_of(engine, gradient, 2)[0]});
    return {parameter};
  });
}

TEST_F(XlaOpsOnPlugin, ANormThatIsNotFiniteLeavesEveryBit) {
  std::vector<float> gradients = some_values(64, 0);
  gradients[5] = kNaN;
  gradients[6] = std::numeric_limits<float>::infinity();
  const std::vector<float> parameters = some_values(64, 1);
  std::vector<float> squares = some_values(64, 2);
  for (float& square : squares) square *= square;
  // Changes are zeros on the cpu engine, and zeros have no tolerance.
  expect_equal([&](Engine& engine) -> std::vector<Tensor> {
    const Tensor gradient = input_of<float>(engine, {64}, gradients);
    const Tensor clip = clip_of(engine, gradient, 1)[0];
    const Tensor schedule = input_of<float>(engine, {3}, {0.5F, 0.1F, 0.05F});
    const Tensor m = input_of<float>(engine, {64}, parameters);
    const Tensor v = input_of<float>(engine, {64}, squares);
    const Tensor adam = input_of<float>(engine, {64}, parameters);
    engine.apply(AdamW{}, std::vector<Tensor>{adam, gradient, m, v, schedule, clip});
    const Tensor sgd = input_of<float>(engine, {64}, parameters);
    engine.apply(Sgd{}, std::vector<Tensor>{sgd, gradient, schedule, clip});
    return {change(engine, adam, parameters), change(engine, m, parameters), change(engine, v, squares),
            change(engine, sgd, parameters)};
  });
}

}  // namespace
}  // namespace maxtext::testing
