#include "autodiff/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "autodiff/functions.h"
#include "base/error.h"
#include "cpu/device.h"

namespace maxtext::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const Shape kShape = {1, 5, 8};

std::vector<double> twice(std::vector<double> values, double factor = 2) {
  for (double& value : values) value *= factor;
  return values;
}

/// Small whole numbers, whose sums are exact.
Tensor whole_numbers(Engine& engine, int first) {
  std::vector<double> values;
  for (int i = 0; i < 40; ++i) values.push_back((first + 3 * i) % 11 - 5);
  return put(engine, kShape, values);
}

/// y = f(x) on a graph of its own, and the cotangent of x for a given one of y.
struct Evaluated {
  std::vector<double> y;
  std::vector<double> dx;
};
Evaluated evaluate(Engine& engine, const Tensor& x, const Tensor& dy, const std::function<Variable(Variable)>& f,
                   const RematPolicy& policy = {}) {
  Graph graph(engine);
  const Variable input = graph.input(x);
  const Variable result = f(input);
  Evaluated evaluated;
  evaluated.y = get<double>(engine, graph.forward({result}, &policy)[0]);
  evaluated.dx = get<double>(engine, graph.backward({result}, {dy}, {input})[0]);
  return evaluated;
}

TEST(Graph, OneValueInBothInputsOfAnAdd) {
  CpuDevice device;
  const Tensor x = random<double>(*device, kShape, 1);
  const Tensor dy = random<double>(*device, kShape, 2);
  const std::vector<double> seed = get<double>(*device, dy);
  const Evaluated direct = evaluate(*device, x, dy, [](Variable v) { return add(v, v); });
  EXPECT_EQ(direct.dx, twice(seed));
  const Evaluated through = evaluate(*device, x, dy, [](Variable v) {
    const Variable a = scale(v, 4);
    return add(a, a);
  });
  EXPECT_EQ(through.dx, twice(seed, 8));
  EXPECT_EQ(get<double>(*device, dy), seed) << "the caller's cotangent was written to";
  EXPECT_EQ(get<double>(*device, x), random_values<double>(40, 1)) << "an input was written to";
}

TEST(Graph, APlanIsRunAgainWithOtherLeaves) {
  CpuDevice device;
  Graph graph(*device);
  const Variable x = graph.constant(whole_numbers(*device, 1));
  const Variable y = graph.constant(whole_numbers(*device, 2));
  const Variable unused = scale(y, 3);
  const ForwardPlan plan = graph.plan_forward({add(scale(x, 2), y)}, nullptr);
  const std::int64_t leaves = device->memory().live_bytes();
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(device->memory().live_bytes(), leaves) << "values are held between runs";
    const Tensor other = whole_numbers(*device, 5 * run);
    graph.bind(x, other);
    std::vector<double> expected = twice(get<double>(*device, other));
    const std::vector<double> added = get<double>(*device, whole_numbers(*device, 2));
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += added[i];
    EXPECT_EQ(get<double>(*device, graph.forward(plan)[0]), expected) << run;
  }
  EXPECT_EQ(graph.runs_of("scale"), 3) << unused.node() << " is not a result";
  graph.bind(x, Tensor());
  EXPECT_THAT([&] { graph.forward(plan); }, ThrowsMessage<Error>(HasSubstr("not bound")));
}

/// With and without the row where a part of a table begins.
TEST(Graph, EmbeddingsGradientGoesToTheRowsOfItsPart) {
  CpuDevice device;
  const std::vector<double> dy = random_values<double>(3 * 2, 1);
  for (const std::int32_t first : {0, 4}) {
    Graph graph(*device);
    GradientSlot slot;
    const Variable table = graph.parameter(random<double>(*device, {3, 2}, 2), &slot);
    const std::vector<std::int32_t> ids{first + 2, first == 0 ? 1 : 3, first + 2};
    const Variable id = graph.constant(put(*device, {3}, ids));
    const Variable begin = first == 0 ? Variable() : graph.constant(put(*device, {}, std::vector<std::int32_t>{first}));
    const Variable y = embedding(table, id, begin);
    const RematPolicy policy;
    graph.forward({y}, &policy);
    graph.backward({y}, {put(*device, {3, 2}, dy)}, {});
    // Token 1 is looked up in the whole table only.
    const std::vector<double> row1 = first == 0 ? std::vector{dy[2], dy[3]} : std::vector{0.0, 0.0};
    EXPECT_EQ(get<double>(*device, slot.destination),
              (std::vector<double>{0, 0, row1[0], row1[1], dy[0] + dy[4], dy[1] + dy[5]}));
  }
}

TEST(Graph, ResidualsDoNotCorruptSharedCotangents) {
  CpuDevice device;
  const Tensor x = whole_numbers(*device, 1);
  const Tensor dy = whole_numbers(*device, 2);
  const std::vector<double> seed = get<double>(*device, dy);
  // z = x + 2x, u = z + 4z: du/dx = 15; each add hands one tensor to two.
  const Evaluated chain = evaluate(*device, x, dy, [](Variable v) {
    const Variable z = add(v, scale(v, 2));
    return add(z, scale(z, 4));
  });
  EXPECT_EQ(chain.dx, twice(seed, 15));
  // x feeds four branches, two of which pass the cotangent on untouched.
  const Evaluated branches = evaluate(*device, x, dy, [](Variable v) {
    return add(add(v, reshape(reshape(v, {5, 8}), kShape)), add(scale(v, 2), v));
  });
  EXPECT_EQ(branches.dx, twice(seed, 5));
  EXPECT_EQ(get<double>(*device, dy), seed);
}

TEST(Graph, GatedActivationOfOneValueTwice) {
  CpuDevice device;
  const Tensor x = random<double>(*device, kShape, 1);
  const Tensor dy = random<double>(*device, kShape, 2);
  const auto separate = [&](bool first) {
    Graph graph(*device);
    const Variable gate = graph.input(x);
    const Variable up = graph.input(x);
    const Variable y = gated_activation(gate, up, Activation::silu);
    const RematPolicy policy;
    graph.forward({y}, &policy);
    return get<double>(*device, graph.backward({y}, {dy}, {first ? gate : up})[0]);
  };
  const std::vector<double> dgate = separate(true);
  const std::vector<double> dup = separate(false);
  // Through a scale, so that the value belongs to the graph and could be overwritten by its gradient.
  for (const char* policy : {"none", "full"}) {
    const Evaluated both = evaluate(
        *device, x, dy,
        [](Variable v) {
          const Variable a = scale(v, 1);
          return gated_activation(a, a, Activation::silu);
        },
        remat_policy(policy));
    for (std::size_t i = 0; i < dup.size(); ++i) EXPECT_EQ(both.dx[i], dgate[i] + dup[i]);
  }
}

TEST(Graph, ParameterUsedTwiceCollectsBothGradients) {
  CpuDevice device;
  const Tensor x = random<double>(*device, kShape, 1);
  const Tensor w = random<double>(*device, {8, 8}, 2);
  const Tensor dy = random<double>(*device, kShape, 3);
  const RematPolicy policy;
  const auto gradients = [&](bool tied) {
    GradientSlot first;
    GradientSlot second;
    Graph graph(*device);
    const Variable input = graph.input(x);
    const Variable w1 = graph.parameter(w, &first);
    const Variable w2 = tied ? w1 : graph.parameter(w, &second);
    const Variable y = linear(linear(input, w1), w2);
    graph.forward({y}, &policy);
    graph.backward({y}, {dy}, {input});
    std::vector<double> sum = get<double>(*device, first.destination);
    if (!tied) {
      const std::vector<double> other = get<double>(*device, second.destination);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
    }
    return sum;
  };
  const std::vector<double> tied = gradients(true);
  const std::vector<double> separate = gradients(false);
  for (std::size_t i = 0; i < tied.size(); ++i) EXPECT_NEAR(tied[i], separate[i], 1e-12);
}

/// x -> (2x, 3x).
class TwoOutputs final : public Function {
 public:
  std::string_view name() const override { return "two_outputs"; }
  std::vector<TensorSpec> infer(InputSpecs inputs) const override { return {inputs[0], inputs[0]}; }
  std::vector<Tensor> forward(Engine& engine, std::vector<Tensor> inputs) const override {
    return {engine.apply_one(Scale{2}, {inputs[0]}), engine.apply_one(Scale{3}, {inputs[0]})};
  }
  PullbackNeeds needs() const override { return {}; }
  void pullback(Pullback& p) const override {
    EXPECT_FALSE(p.has_cotangent(0));
    p.add(0, p.engine().apply_one(Scale{2}, {p.cotangent(0)}));
    p.add(0, p.engine().apply_one(Scale{3}, {p.cotangent(1)}));
  }
};

TEST(Graph, AnUnusedOutputHasAZeroCotangent) {
  CpuDevice device;
  const Tensor x = random<double>(*device, kShape, 1);
  const Tensor dy = random<double>(*device, kShape, 2);
  const Evaluated second =
      evaluate(*device, x, dy, [](Variable v) { return v.graph().apply(std::make_shared<TwoOutputs>(), {v})[1]; });
  EXPECT_EQ(second.dx, twice(get<double>(*device, dy), 3));
}

TEST(Graph, WhatNobodyReadsIsNotRun) {
  CpuDevice device;
  Graph graph(*device);
  const Variable x = graph.input(random<double>(*device, kShape, 1));
  const Variable w = graph.parameter(random<double>(*device, {8, 8}, 2), nullptr);
  const Variable unused = linear(x, w);
  const Variable used = scale(x, 2);
  graph.forward({used}, nullptr);
  EXPECT_EQ(graph.runs_of("linear"), 0);
  EXPECT_EQ(graph.runs_of("scale"), 1);
  EXPECT_TRUE(unused.defined());
}

TEST(Graph, EvaluationFreesEachValueAfterItsLastUse) {
  CpuDevice device;
  const Tensor x = random<double>(*device, {64, 64}, 1);
  const std::int64_t size = x.spec().bytes();
  device->memory().reset_peak();
  const std::int64_t before = device->memory().live_bytes();
  Graph graph(*device);
  Variable y = graph.input(x);
  for (int i = 0; i < 10; ++i) y = scale(y, 0.5);
  const Tensor result = graph.forward({y}, nullptr)[0];
  EXPECT_EQ(device->memory().peak_bytes() - before, 2 * size);
  EXPECT_EQ(device->memory().live_bytes() - before, size);
}

TEST(Graph, BackwardFreesEachValueAfterItsLastUse) {
  CpuDevice device;
  const Tensor x = random<double>(*device, {64, 64}, 1);
  const Tensor w = random<double>(*device, {64, 64}, 2);
  const Tensor dy = random<double>(*device, {64, 64}, 3);
  const std::int64_t size = x.spec().bytes();
  const int layers = 10;
  std::int64_t kept[2];
  for (const bool keep : {false, true}) {
    const RematPolicy policy = remat_policy(keep ? "none" : "full");
    GradientSlot slot;
    Graph graph(*device);
    const Variable input = graph.input(x);
    const Variable weight = graph.parameter(w, &slot);
    Variable y = input;
    for (int i = 0; i < layers; ++i) y = linear(y, weight);
    const std::int64_t before = device->memory().live_bytes();
    graph.forward({y}, &policy);
    kept[keep ? 1 : 0] = device->memory().live_bytes() - before;
    device->memory().reset_peak();
    const std::int64_t start = device->memory().live_bytes();
    const Tensor dx = graph.backward({y}, {dy}, {input})[0];
    // Left: dx and the gradient of w. At the peak beside them, the cotangent that is read.
    EXPECT_EQ(device->memory().live_bytes() - before, 2 * size);
    if (keep) {
      EXPECT_LE(device->memory().peak_bytes() - start, 3 * size);
    } else {
      EXPECT_LE(device->memory().peak_bytes() - start, (layers - 1 + 3) * size);
      EXPECT_EQ(graph.runs_of("linear"), layers + layers - 1);
    }
  }
  EXPECT_EQ(kept[0], 0) << "full keeps nothing but what enters the graph";
  EXPECT_EQ(kept[1], (layers - 1) * size) << "none keeps what backward reads, not the result";
}

TEST(Graph, FullRunsNoDeadRecomputation) {
  CpuDevice device;
  GradientSlot slots[3];
  const RematPolicy full = remat_policy("full");
  Graph graph(*device);
  const Variable x = graph.input(random<double>(*device, kShape, 1));
  const auto weight = [&](int i) { return graph.parameter(random<double>(*device, {8, 8}, 5), &slots[i]); };
  const Variable gate = linear(x, weight(0));
  const Variable up = linear(x, weight(1));
  const Variable y = linear(gated_activation(gate, up, Activation::silu), weight(2));
  graph.forward({y}, &full);
  EXPECT_EQ(graph.runs_of("linear"), 3);
  graph.backward({y}, {random<double>(*device, kShape, 6)}, {x});
  EXPECT_EQ(graph.runs_of("linear"), 5) << "gate and up again, the last projection not";
  EXPECT_EQ(graph.runs_of("gated_activation"), 2);
}

TEST(Graph, BindChecksWhatItIsGiven) {
  CpuDevice device;
  Graph graph(*device);
  const Variable x = graph.input(random<double>(*device, kShape, 1));
  GradientSlot slot;
  const Variable w = graph.parameter(random<double>(*device, {8, 8}, 2), &slot);
  const Variable y = linear(x, w);
  EXPECT_THAT(
      [&] {
        graph.bind(w, random<double>(*device, {8, 9}, 2));
      },
      ThrowsMessage<Error>("a leaf of float64[8, 8] cannot be bound to float64[8, 9]"));
  EXPECT_THAT([&] { graph.bind(y, Tensor()); }, ThrowsMessage<Error>("only leaves of a graph can be bound"));
  graph.bind(w, Tensor());
  EXPECT_THAT([&] { graph.forward({y}, nullptr); },
              ThrowsMessage<Error>("a leaf float64[8, 8] was read while it is not bound"));
  graph.bind(w, random<double>(*device, {8, 8}, 2));
  const RematPolicy policy;
  graph.forward({y}, &policy);
  graph.bind(w, Tensor());
  EXPECT_THROW(graph.backward({y}, {random<double>(*device, kShape, 3)}, {x}), Error);
}

TEST(Graph, MisuseIsAnError) {
  CpuDevice device;
  Graph graph(*device);
  Graph other(*device);
  const Variable x = graph.input(random<double>(*device, kShape, 1));
  const Variable y = other.input(random<double>(*device, kShape, 1));
  EXPECT_THAT([&] { add(x, y); }, ThrowsMessage<Error>("add: an input does not belong to this graph"));
  EXPECT_THROW(add(x, Variable()), Error);
  const RematPolicy policy;
  const Variable sum = graph.apply(primitive(Sum{}), {x})[0];
  graph.forward({sum}, &policy);
  const Tensor one = (*device).apply_one(Fill{.spec = {{}, DType::float64}, .value = 1}, {});
  EXPECT_THAT([&] { graph.backward({sum}, {one}, {x}); }, ThrowsMessage<Error>("sum has no derivative"));
  EXPECT_THROW(graph.backward({sum}, {}, {x}), Error);
  EXPECT_THAT([] { remat_policy("some"); },
              ThrowsMessage<ConfigError>(HasSubstr("remat_policy=some is unknown; allowed are full, minimal, none")));
}

// ---- random graphs against finite differences ----

struct RandomProgram {
  std::vector<std::vector<double>> leaves;  ///< x, then the weights
  std::uint64_t seed = 0;

  static constexpr int kWeights = 4;
  static constexpr int kNorms = 2;

  Shape shape(std::size_t leaf) const {
    if (leaf == 0) return kShape;
    return leaf <= kWeights ? Shape{8, 8} : Shape{8};
  }

  /// Twelve random ops on values of one shape; the last joins all that came before.
  Variable build(const std::vector<Variable>& v) const {
    std::mt19937_64 random(seed);
    std::vector<Variable> values = {v[0]};
    const auto any = [&] { return values[random() % values.size()]; };
    for (int i = 0; i < 12; ++i) {
      switch (random() % 6) {
        case 0:
          values.push_back(linear(any(), v[1 + random() % kWeights], i % 2 == 0 ? "kept" : ""));
          break;
        case 1:
          values.push_back(add(any(), any()));
          break;
        case 2:
          values.push_back(rms_norm(any(), v[1 + kWeights + random() % kNorms], 1e-3));
          break;
        case 3:
          values.push_back(gated_activation(any(), any(), Activation::gelu_tanh));
          break;
        case 4:
          values.push_back(scale(any(), 0.7));
          break;
        default:
          values.push_back(linear(any(), v[1 + random() % kWeights], v[1 + kWeights + random() % kNorms]));
      }
    }
    Variable joined = values.back();
    for (std::size_t i = values.size() - 4; i < values.size() - 1; ++i) joined = add(joined, values[i]);
    return joined;
  }
};

std::vector<std::vector<double>> gradients_of(Engine& engine, const RandomProgram& program, const Tensor& dy,
                                              const RematPolicy& policy) {
  Graph graph(engine);
  std::vector<GradientSlot> slots(program.leaves.size());
  std::vector<Variable> leaves;
  for (std::size_t i = 0; i < program.leaves.size(); ++i) {
    const Tensor tensor = put(engine, program.shape(i), program.leaves[i]);
    leaves.push_back(i == 0 ? graph.input(tensor) : graph.parameter(tensor, &slots[i]));
  }
  const Variable y = program.build(leaves);
  graph.forward({y}, &policy);
  const Tensor dx = graph.backward({y}, {dy}, {leaves[0]})[0];
  std::vector<std::vector<double>> gradients;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Tensor gradient = i == 0 ? dx : slots[i].destination;
    gradients.push_back(gradient.defined() ? get<double>(engine, gradient)
                                           : std::vector<double>(program.leaves[i].size(), 0.0));
  }
  return gradients;
}

double objective(Engine& engine, const RandomProgram& program, const std::vector<double>& dy) {
  Graph graph(engine);
  std::vector<Variable> leaves;
  for (std::size_t i = 0; i < program.leaves.size(); ++i) {
    leaves.push_back(graph.constant(put(engine, program.shape(i), program.leaves[i])));
  }
  const std::vector<double> y = get<double>(engine, graph.forward({program.build(leaves)}, nullptr)[0]);
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
  return sum;
}

TEST(Graph, RandomGraphsAgreeWithFiniteDifferencesUnderEveryPolicy) {
  CpuDevice device;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    RandomProgram program{.leaves = {}, .seed = seed};
    for (std::size_t i = 0; i < 1 + RandomProgram::kWeights + RandomProgram::kNorms; ++i) {
      program.leaves.push_back(random_values<double>(element_count(program.shape(i)),
                                                     static_cast<unsigned>(100 * seed + i), i == 0 ? 1 : 0.5));
    }
    const std::vector<double> seed_values = random_values<double>(40, static_cast<unsigned>(seed));
    const Tensor dy = put(*device, kShape, seed_values);
    const auto gradients = gradients_of(*device, program, dy, remat_policy("none"));
    EXPECT_EQ(gradients_of(*device, program, dy, remat_policy("full")), gradients) << "seed " << seed;
    EXPECT_EQ(gradients_of(*device, program, dy, {.keep_all = false, .names = {"kept"}}), gradients) << seed;
    EXPECT_EQ(get<double>(*device, dy), seed_values);
    for (std::size_t leaf = 0; leaf < program.leaves.size(); ++leaf) {
      double largest = 1e-3;
      for (const double value : gradients[leaf]) largest = std::max(largest, std::abs(value));
      for (std::size_t element = leaf; element < program.leaves[leaf].size(); element += 13) {
        constexpr double kStep = 1e-6;
        double side[2];
        for (const int s : {0, 1}) {
          RandomProgram moved = program;
          moved.leaves[leaf][element] += s == 0 ? -kStep : kStep;
          side[s] = objective(*device, moved, seed_values);
        }
        const double rounding = 1e-16 * std::abs(side[0]) / kStep * 10;
        EXPECT_NEAR(gradients[leaf][element], (side[1] - side[0]) / (2 * kStep), 1e-6 * largest + rounding)
            << "seed " << seed << " leaf " << leaf << " [" << element << "]";
      }
    }
  }
}

}  // namespace
}  // namespace maxtext::testing
