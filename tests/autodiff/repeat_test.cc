#include "autodiff/repeat.h"

#include <gtest/gtest.h>

#include <set>

#include "autodiff/functions.h"
#include "cpu/device.h"

namespace maxtext::testing {
namespace {

/// One [8, 8] weight per iteration; notes what is called, and checks that it may be.
class NotingSource final : public ParameterSource {
 public:
  NotingSource(Engine& engine, int iterations) : engine_(engine), slots_(static_cast<std::size_t>(iterations)) {}

  static Tensor weight(Engine& engine, int iteration) {
    return random<double>(engine, {8, 8}, 10 + static_cast<unsigned>(iteration), 0.4);
  }

  void prefetch(int iteration) override {
    gathered.insert(iteration);
    most_gathered = std::max(most_gathered, gathered.size());
  }
  void prefetch_following() override { calls.push_back("following"); }
  std::vector<Tensor> acquire(int iteration) override {
    EXPECT_TRUE(gathered.contains(iteration)) << "not started ahead";
    calls.push_back("acquire " + std::to_string(iteration));
    return {weight(engine_, iteration)};
  }
  void release(int iteration) override { gathered.erase(iteration); }
  std::vector<GradientSlot*> gradient_slots(int iteration) override { return {&slot(iteration)}; }
  void begin_gradients(int /*iteration*/) override {}
  void gradients_ready(int iteration) override { calls.push_back("ready " + std::to_string(iteration)); }

  GradientSlot& slot(int iteration) { return slots_[static_cast<std::size_t>(iteration)]; }

  std::vector<std::string> calls;
  std::set<int> gathered;
  std::size_t most_gathered = 0;

 private:
  Engine& engine_;
  std::vector<GradientSlot> slots_;
};

Variable layer(Graph&, Variable x, std::span<const Variable> parameters, int /*iteration*/) {
  return add(x, linear(gated_activation(x, x, Activation::silu), parameters[0], "kept"));
}

class RepeatTest : public ::testing::TestWithParam<int> {};

TEST_P(RepeatTest, EqualsTheUnrolledGraph) {
  const int iterations = GetParam();
  CpuDevice device;
  const Tensor x = random<double>(*device, {5, 8}, 1);
  const Tensor dy = random<double>(*device, {5, 8}, 2);
  for (const char* name : {"none", "full"}) {
    const RematPolicy policy = remat_policy(name);
    std::vector<GradientSlot> slots(static_cast<std::size_t>(iterations));
    Graph graph(*device);
    const Variable input = graph.input(x);
    Variable value = input;
    for (int i = 0; i < iterations; ++i) {
      const Variable w = graph.parameter(NotingSource::weight(*device, i), &slots[static_cast<std::size_t>(i)]);
      value = layer(graph, value, std::span(&w, 1), i);
    }
    const std::vector<double> y = get<double>(*device, graph.forward({value}, &policy)[0]);
    const std::vector<double> dx = get<double>(*device, graph.backward({value}, {dy}, {input})[0]);

    NotingSource source(*device, iterations);
    Repeat repeat(*device, iterations, 1, layer);
    EXPECT_EQ(get<double>(*device, repeat.forward(x, source, &policy)), y);
    EXPECT_EQ(get<double>(*device, repeat.backward(dy, source)), dx);
    for (int i = 0; i < iterations; ++i) {
      EXPECT_EQ(get<double>(*device, source.slot(i).destination),
                get<double>(*device, slots[static_cast<std::size_t>(i)].destination));
    }
    EXPECT_LE(source.most_gathered, 2U);
    EXPECT_TRUE(source.gathered.empty()) << "everything is given back";
  }
}

TEST_P(RepeatTest, EvaluationKeepsNothing) {
  const int iterations = GetParam();
  CpuDevice device;
  const Tensor x = random<double>(*device, {5, 8}, 1);
  NotingSource source(*device, iterations);
  Repeat repeat(*device, iterations, 1, layer);
  const std::int64_t before = device->memory().live_bytes();
  const Tensor y = repeat.forward(x, source, nullptr);
  EXPECT_EQ(device->memory().live_bytes() - before, iterations == 0 ? 0 : y.spec().bytes());
  EXPECT_TRUE(source.gathered.empty());
  EXPECT_LE(source.most_gathered, 2U);
}

INSTANTIATE_TEST_SUITE_P(Iterations, RepeatTest, ::testing::Values(0, 1, 3));

TEST(Repeat, GradientsAreReadyLastIterationFirst) {
  CpuDevice device;
  NotingSource source(*device, 3);
  const RematPolicy policy;
  Repeat repeat(*device, 3, 1, layer);
  repeat.forward(random<double>(*device, {5, 8}, 1), source, &policy);
  repeat.backward(random<double>(*device, {5, 8}, 2), source);
  const std::vector<std::string> expected = {"acquire 0", "acquire 1", "acquire 2", "following", "acquire 2",
                                             "ready 2",   "acquire 1", "ready 1",   "acquire 0", "ready 0"};
  EXPECT_EQ(source.calls, expected);
}

}  // namespace
}  // namespace maxtext::testing
