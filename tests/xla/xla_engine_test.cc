// Memory, arguments and results of the tracing engine; single ops on a plugin against the cpu engine.
#include "engines/xla/xla_engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"
#include "mesh/device_program.h"
#include "xla/error_of.h"
#include "xla/ops_on_plugin.h"

namespace maxtext::testing {
namespace {

class XlaEngineOnPlugin : public XlaOpsOnPlugin {
 protected:
  std::unique_ptr<XlaEngine> engine() { return std::make_unique<XlaEngine>(kOneDevice, 0, runtime_); }
};

TEST_F(XlaEngineOnPlugin, BorrowedMemoryIsAnArgumentThatIsNotWritten) {
  const auto engine = this->engine();
  const std::vector<float> owned = some_values(4, 0);
  const Tensor x = engine->borrow({{4}, DType::float32}, std::as_bytes(std::span(owned)), nullptr);
  EXPECT_EQ(read_floats(*engine, x), owned);
  EXPECT_EQ(error_of([&] { engine->write(x, std::as_bytes(std::span(owned))); }),
            "write: the memory of float32[4] is borrowed");
  EXPECT_EQ(error_of([&] {
              engine->apply_one(Add{.in_place = true}, {x, x});
            }),
            "add: input 0 would be overwritten, but its memory is borrowed");
}

TEST_F(XlaEngineOnPlugin, NothingRunsUntilSomebodyReads) {
  const auto engine = this->engine();
  const Tensor x = input_of<float>(*engine, {4}, {1, 2, 3, 4});
  const Tensor doubled = engine->apply_one(Add{}, {x, x});
  EXPECT_EQ(runtime_->compiled_programs(), 0);
  EXPECT_EQ(read_floats(*engine, x), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(runtime_->compiled_programs(), 0);
  EXPECT_EQ(read_floats(*engine, doubled), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(runtime_->compiled_programs(), 1);
  EXPECT_EQ(read_floats(*engine, doubled), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(runtime_->compiled_programs(), 1);
}

/// A step as training has it: state overwritten in place, inputs that change, one program for all steps.
TEST_F(XlaEngineOnPlugin, StateLivesOnTheDeviceFromStepToStep) {
  const auto engine = this->engine();
  const Tensor state = engine->allocate_shard({{4}, DType::float32}, Axis::fsdp);
  for (int step = 0; step < 3; ++step) {
    const Tensor x = input_of<float>(*engine, {4}, {1, 2, 3, static_cast<float>(step)});
    engine->apply_one(Add{.in_place = true}, {state, x});
    engine->run();
    EXPECT_NE(engine->last_program().find("tf.aliasing_output"), std::string::npos);
  }
  EXPECT_EQ(runtime_->compiled_programs(), 1);
  EXPECT_EQ(read_floats(*engine, state), (std::vector<float>{3, 6, 9, 3}));
}

TEST_F(XlaEngineOnPlugin, WritesBetweenProgramsAndInTheMidstOfOne) {
  const auto engine = this->engine();
  const Tensor x = input_of<float>(*engine, {4}, {1, 2, 3, 4});
  const Tensor before = engine->apply_one(Scale{.factor = 10}, {x});
  const std::vector<float> part = {7, 8};
  engine->write(x.view(1, {2}), std::as_bytes(std::span(part)));
  const Tensor after = engine->apply_one(Scale{.factor = 10}, {x});
  EXPECT_EQ(read_floats(*engine, after), (std::vector<float>{10, 70, 80, 40}));
  EXPECT_EQ(read_floats(*engine, before), (std::vector<float>{10, 20, 30, 40}));
  engine->apply_one(Add{.in_place = true}, {x, before});
  engine->write(x.view(0, {2}), std::as_bytes(std::span(part)));
  EXPECT_EQ(read_floats(*engine, x), (std::vector<float>{7, 8, 38, 44}));
}

TEST_F(XlaEngineOnPlugin, LoopsCarryWhatTheyWriteAndMoveAlongStacks) {
  for (const bool reverse : {false, true}) {
    const auto engine = this->engine();
    const std::vector<Tensor> stack = engine->zeros_stack(5, {{2}, DType::float32});
    const std::vector<Tensor> sums = engine->allocate_stack(5, {{2}, DType::float32});
    for (std::size_t row = 0; row < 5; ++row) {
      const std::vector<float> values = {static_cast<float>(row), 1};
      engine->write(stack[row], std::as_bytes(std::span(values)));
    }
    const Tensor sum = input_of<float>(*engine, {2}, {100, 0});
    const Tensor twice = input_of<float>(*engine, {2}, {2, 2});
    // Rows 1 and 3: each adds itself and the row behind it.
    engine->loop({.begin = 1, .end = 5, .step = 2, .reverse = reverse}, [&](std::int64_t row) {
      const auto i = static_cast<std::size_t>(row);
      const Tensor both = engine->apply_one(Add{}, {stack[i], stack[i + 1]});
      engine->apply_one(Add{.in_place = true}, {sum, both});
      engine->apply_one(Add{.in_place = true}, {sum, twice});
      engine->apply_one(Assign{}, {sum, sums[i]});
    });
    EXPECT_EQ(read_floats(*engine, sum), (std::vector<float>{114, 8}));
    EXPECT_EQ(read_floats(*engine, sums[1]), reverse ? (std::vector<float>{114, 8}) : (std::vector<float>{105, 4}));
    EXPECT_EQ(read_floats(*engine, sums[3]), reverse ? (std::vector<float>{109, 4}) : (std::vector<float>{114, 8}));
    EXPECT_EQ(read_floats(*engine, sums[2]), (std::vector<float>{0, 0}));
    EXPECT_EQ(read_floats(*engine, twice), (std::vector<float>{2, 2}));
  }
}

TEST_F(XlaEngineOnPlugin, WhatALoopsBodyMadeIsGoneAfterIt) {
  const auto engine = this->engine();
  const Tensor x = input_of<float>(*engine, {2}, {1, 2});
  Tensor inside;
  engine->loop({.begin = 0, .end = 3}, [&](std::int64_t) { inside = engine->apply_one(Scale{.factor = 2}, {x}); });
  EXPECT_EQ(error_of([&] { engine->apply_one(Scale{.factor = 2}, {inside}); }),
            "xla: a tensor of a loop's body is used after the loop");
  EXPECT_EQ(error_of([&] {
              engine->loop({.begin = 0, .end = 3}, [&](std::int64_t) {
                engine->apply_one(Add{.in_place = true}, {x, x});
                read_floats(*engine, x);
              });
            }),
            "xla: a tensor is read inside a loop");
}

/// Two devices, each on a thread: what they trace must be one program.
void run_two(const std::shared_ptr<XlaRuntime>& runtime, const std::function<void(XlaEngine&)>& program) {
  const std::vector<int> devices = {0, 1};
  run_devices(
      devices,
      [&](int device) {
        XlaEngine engine(Mesh({1, 1, 2, 1}), device, runtime);
        program(engine);
      },
      [](int, const std::string&) {});
}

TEST_F(XlaEngineOnPlugin, AProgramThatDependsOnTheDeviceIsFound) {
  const auto runtime = std::make_shared<XlaRuntime>(PjrtClient::open(plugin_path(), 2), 2);
  EXPECT_EQ(error_of([&] {
              run_two(runtime, [](XlaEngine& engine) {
                const Tensor x = input_of<float>(engine, {2}, {1, 2});
                read_floats(engine, engine.apply_one(Scale{.factor = 1.0 + engine.device()}, {x}));
              });
            }),
            "device 1 traced another program than device 0: line 3 is `  %0 = stablehlo.constant "
            "dense<2.00000000000000000e+00> : tensor<2xf32>`, not `  %0 = stablehlo.constant "
            "dense<1.00000000000000000e+00> : tensor<2xf32>`");
}

TEST_F(XlaEngineOnPlugin, DevicesComeAgainAfterTheyLeft) {
  const auto runtime = std::make_shared<XlaRuntime>(PjrtClient::open(plugin_path(), 2), 2);
  for (int round = 0; round < 20; ++round) {
    run_two(runtime, [](XlaEngine& engine) {
      const Tensor x = input_of<float>(engine, {2}, {1, 2});
      EXPECT_EQ(read_floats(engine, engine.apply_one(Scale{.factor = 2}, {x})), (std::vector<float>{2, 4}));
    });
  }
  EXPECT_EQ(runtime->compiled_programs(), 1);
}

TEST_F(XlaEngineOnPlugin, ADeviceThatFailsDoesNotLeaveTheOthersWaiting) {
  const auto runtime = std::make_shared<XlaRuntime>(PjrtClient::open(plugin_path(), 2), 2);
  EXPECT_EQ(error_of([&] {
              run_two(runtime, [](XlaEngine& engine) {
                if (engine.device() == 1) fail("the disk is full");
                const Tensor x = input_of<float>(engine, {2}, {1, 2});
                read_floats(engine, engine.apply_one(Scale{.factor = 2}, {x}));
              });
            }),
            "the disk is full");
}

TEST_F(XlaOpsOnPlugin, WritingToAViewChangesTheBuffer) {
  expect_equal([](Engine& engine) -> std::vector<Tensor> {
    const Tensor flat = input_of<float>(engine, {24}, some_values(24, 0));
    const Tensor weight = engine.apply_one(View{.first_element = 4, .shape = {3, 4}}, {flat});
    const Tensor dy = input_of<float>(engine, {2, 3}, some_values(6, 1));
    const Tensor x = input_of<float>(engine, {2, 4}, some_values(8, 2));
    engine.apply_one(LinearBackwardWeight{.accumulate = true}, {dy, x, weight});
    return {flat, engine.apply_one(Scale{.factor = 3}, {weight})};
  });
}

TEST_F(XlaOpsOnPlugin, BothActivations) {
  for (const Activation activation : {Activation::silu, Activation::gelu_tanh}) {
    expect_equal([&](Engine& engine) -> std::vector<Tensor> {
      const Tensor gate = input_of<float>(engine, {3, 5}, some_values(15, 0));
      const Tensor up = input_of<float>(engine, {3, 5}, some_values(15, 1));
      const Tensor y = engine.apply_one(GatedActivation{.activation = activation}, {gate, up});
      std::vector<Tensor> all = engine.apply(GatedActivationBackward{.activation = activation}, {y, gate, up});
      all.push_back(y);
      return all;
    });
  }
}

TEST_F(XlaOpsOnPlugin, AttentionOfPaddingThatHoldsNaN) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  expect_equal([](Engine& engine) -> std::vector<Tensor> {
    // Two devices' keys in swapped order; token 3 is padding, which lies in slot 1; query 2 sees nothing.
    std::vector<float> k = some_values(2 * 2 * 1 * 4, 0);
    std::vector<float> v = some_values(2 * 2 * 1 * 4, 1);
    for (std::size_t d = 4; d < 8; ++d) k[d] = v[d] = kNaN;
    const std::vector<Tensor> inputs = {input_of<float>(engine, {1, 3, 2, 4}, some_values(3 * 2 * 4, 2)),
                                        input_of<float>(engine, {2, 1, 2, 1, 4}, k),
                                        input_of<float>(engine, {2, 1, 2, 1, 4}, v),
                                        input_of<std::int32_t>(engine, {1, 4}, {2, 3, 0, 1}),
                                        input_of<std::int32_t>(engine, {1, 3}, {0, 1, 2}),
                                        input_of<std::int32_t>(engine, {1, 3}, {2, 3, 2})};
    const std::vector<Tensor> forward = engine.apply(AttentionForward{.scale = 0.7, .kv_heads = 1}, inputs);
    std::vector<Tensor> backward_inputs = inputs;
    backward_inputs.insert(backward_inputs.end(), forward.begin(), forward.end());
    backward_inputs.push_back(input_of<float>(engine, {1, 3, 2, 4}, some_values(3 * 2 * 4, 3)));
    std::vector<Tensor> all = engine.apply(AttentionBackward{.scale = 0.7, .kv_heads = 1}, backward_inputs);
    all.insert(all.end(), forward.begin(), forward.end());
    return all;
  });
}

TEST_F(XlaOpsOnPlugin, EmbeddingOfAPartOfTheTable) {
  expect_equal([](Engine& engine) -> std::vector<Tensor> {
    const Tensor table = input_of<float>(engine, {3, 2}, some_values(6, 0));
    const Tensor ids = input_of<std::int32_t>(engine, {2, 3}, {4, 1, 3, 5, 6, 4});
    const Tensor first = input_of<std::int32_t>(engine, {}, {3});
    std::vector<float> dy = some_values(12, 1);
    dy[2] = std::numeric_limits<float>::quiet_NaN();  // of an id that is not here
    const Tensor gradient = engine.apply_one(
        EmbeddingBackward{},
        {input_of<float>(engine, {2, 3, 2}, dy), ids, input_of<float>(engine, {3, 2}, some_values(6, 2)), first});
    return {engine.apply_one(Embedding{}, {table, ids, first}), gradient};
  });
}

TEST_F(XlaOpsOnPlugin, CrossEntropyOverPartsOfTheVocabulary) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const double softcap : {0.0, 3.0}) {
    expect_equal([&](Engine& engine) -> std::vector<Tensor> {
      // Two parts of five rows; token 1 has no weight and NaN, the second part of token 2 is empty.
      std::vector<float> parts[2] = {some_values(20, 0), some_values(20, 1)};
      for (std::size_t i = 5; i < 10; ++i) parts[0][i] = parts[1][i] = kNaN;
      if (softcap == 0) std::fill_n(parts[1].begin() + 10, 5, -kInfinity);
      const Tensor targets = input_of<std::int32_t>(engine, {4}, {7, -1, 3, 0});
      const Tensor weights = input_of<float>(engine, {4}, {1, 0, 0.5F, 2});
      std::vector<Tensor> logits, first, statistics;
      for (std::int32_t part = 0; part < 2; ++part) {
        logits.push_back(input_of<float>(engine, {4, 5}, parts[part]));
        first.push_back(input_of<std::int32_t>(engine, {}, {5 * part}));
        const Tensor found = engine.apply_one(LogitStatistics{}, {logits.back(), targets, first.back()});
        statistics.push_back(engine.apply_one(Reshape{{1, 3, 4}}, {found}));
      }
      const Tensor all = engine.apply(Concat{.axis = 0}, statistics)[0];
      const Tensor inverse = input_of<float>(engine, {}, {0.25F});
      std::vector<Tensor> results;
      for (std::size_t part = 0; part < 2; ++part) {
        const CrossEntropyFromStatistics op{.vocabulary = 10, .z_loss_multiplier = 1e-2, .softcap = softcap};
        const std::vector<Tensor> loss =
            engine.apply(op, std::vector<Tensor>{all, targets, weights, logits[part], inverse, first[part]});
        results.push_back(engine.apply_one(Cast{DType::float32}, {loss[0]}));
        results.insert(results.end(), loss.begin() + 1, loss.end());
      }
      const Tensor dirty = input_of<float>(engine, {4, 5}, parts[0]);
      results.push_back(engine.apply_one(MaskRows{}, {dirty, weights}));
      return results;
    });
  }
}

TEST_F(XlaOpsOnPlugin, CompilersWordsAreInTheError) {
  const std::string error =
      error_of([&] { PjrtClient::open(plugin_path(), 1)->compile("module { not a program }", 1); });
  EXPECT_TRUE(error.starts_with("compiling a program: ")) << error;
  EXPECT_NE(error.find("not"), std::string::npos) << error;
}

TEST_F(XlaOpsOnPlugin, AFileThatIsNoPluginIsNamed) {
  const std::string missing = error_of([] { PjrtClient::open("/nowhere/plugin.so", 1); });
  EXPECT_TRUE(missing.starts_with("PJRT plugin /nowhere/plugin.so cannot be loaded: ")) << missing;
  EXPECT_EQ(error_of([] { PjrtClient::open("libm.so.6", 1); }), "libm.so.6 is no PJRT plugin: it has no GetPjrtApi");
}

}  // namespace
}  // namespace maxtext::testing
