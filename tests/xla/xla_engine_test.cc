// Memory, arguments and results of the tracing engine; single ops on a plugin against the cpu engine.
#include "engines/xla/xla_engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"
#include "engines/xla/replicas.h"
#include "model/parallel_cross_entropy.h"
#include "xla/ops_on_plugin.h"

namespace maxtext::testing {
namespace {

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(XlaEngine, NamesAnOpThatItDoesNotKnow) {
  XlaEngine engine(kOneDevice, 0);
  const Tensor x = input_of<float>(engine, {2, 3}, some_values(6, 0));
  EXPECT_EQ(error_of([&] { engine.apply_one(Transpose{{1, 0}}, {x}); }), "the xla spike does not know op transpose");
}

TEST(XlaEngine, RefusesWeightsThatItWouldHaveToWiden) {
  XlaEngine engine(kOneDevice, 0);
  const Tensor x = input_of<float>(engine, {2, 3}, some_values(6, 0));
  const Tensor weight = engine.input({{5, 3}, DType::bfloat16}, std::vector<std::byte>(30));
  const Tensor scale = engine.input({{3}, DType::float16}, std::vector<std::byte>(6));
  const Tensor ids = input_of<std::int32_t>(engine, {1}, {0});
  const std::string refusal = "the xla spike computes in the dtype of its parameters; ";
  EXPECT_EQ(error_of([&] {
              engine.apply_one(Linear{}, {x, weight});
            }),
            "linear: " + refusal + "bfloat16[5, 3] would have to be float32");
  EXPECT_EQ(error_of([&] {
              engine.apply_one(RmsNorm{}, {x, scale});
            }),
            "rms_norm: " + refusal + "float16[3] would have to be float32");
  EXPECT_EQ(error_of([&] {
              engine.apply_one(Embedding{}, {weight, ids});
            }),
            "embedding: " + refusal + "bfloat16[5, 3] would have to be float32");
}

TEST(XlaEngine, BorrowedMemoryIsAnArgumentThatIsNotWritten) {
  XlaEngine engine(kOneDevice, 0);
  const std::vector<float> owned = some_values(4, 0);
  const Tensor x = engine.borrow({{4}, DType::float32}, std::as_bytes(std::span(owned)), nullptr);
  EXPECT_EQ(read_floats(engine, x), owned);
  EXPECT_EQ(error_of([&] { engine.write(x, std::as_bytes(std::span(owned))); }),
            "write: the memory of float32[4] is borrowed");
  EXPECT_EQ(error_of([&] {
              engine.apply_one(Add{.in_place = true}, {x, x});
            }),
            "add: input 0 would be overwritten, but its memory is borrowed");
}

TEST(XlaEngine, ReadsAndWritesArgumentsUntilTheProgramChangesThem) {
  XlaEngine engine(kOneDevice, 0);
  const Tensor x = input_of<float>(engine, {4}, {1, 2, 3, 4});
  const std::vector<float> part = {7, 8};
  const std::vector<float> four = some_values(4, 0);
  engine.write(x.view(1, {2}), std::as_bytes(std::span(part)));
  EXPECT_EQ(read_floats(engine, x), (std::vector<float>{1, 7, 8, 4}));
  const Tensor doubled = engine.apply_one(Add{.in_place = true}, {x, x});
  EXPECT_EQ(error_of([&] { read_floats(engine, x); }), "read: float32[4] is not a result of the traced program");
  EXPECT_THROW(engine.write(x, std::as_bytes(std::span(four))), Error);
  engine.add_result(doubled);
  EXPECT_EQ(error_of([&] { read_floats(engine, x); }), "read: the traced program has not run yet");
  const Tensor inside = engine.allocate({{4}, DType::float32});
  EXPECT_THROW(engine.write(inside, std::as_bytes(std::span(four))), Error);
  EXPECT_THROW(engine.add_result(inside), Error);
}

TEST(XlaEngine, AProgramThatDependsOnTheDeviceIsFound) {
  const Mesh mesh({1, 1, 2, 1});
  XlaEngine first(mesh, 0);
  XlaEngine second(mesh, 1);
  for (XlaEngine* engine : {&first, &second}) {
    engine->apply_one(Scale{.factor = 1.0 + engine->device()}, {input_of<float>(*engine, {2}, {1, 2})});
  }
  EXPECT_EQ(error_of([&] {
              check_same_program(std::vector<const XlaEngine*>{&first, &second});
            }),
            "device 1 traced another program than device 0: line 3 is `  %0 = stablehlo.constant "
            "dense<2.00000000000000000e+00> : tensor<2xf32>`, not `  %0 = stablehlo.constant "
            "dense<1.00000000000000000e+00> : tensor<2xf32>`");
}

TEST(XlaEngine, VocabularyParallelCrossEntropyIsOneProgram) {
  const Mesh mesh({1, 1, 1, 2});
  XlaEngine first(mesh, 0);
  XlaEngine second(mesh, 1);
  for (XlaEngine* engine : {&first, &second}) {
    const std::vector<Tensor> inputs{input_of<float>(*engine, {3, 2}, some_values(6, 0)),
                                     input_of<float>(*engine, {4, 2}, some_values(8, engine->device())),
                                     input_of<std::int32_t>(*engine, {3}, {0, 5, 7}),
                                     input_of<float>(*engine, {3}, {1, 0, 1}),
                                     input_of<float>(*engine, {}, {0.5F}),
                                     input_of<float>(*engine, {4, 2}, some_values(8, 2))};
    vocabulary_parallel_cross_entropy(*engine, {.chunk_tokens = 2, .softcap = 3}, inputs,
                                      input_of<std::int32_t>(*engine, {}, {4 * engine->device()}));
  }
  EXPECT_EQ(error_of([&] { check_same_program(std::vector<const XlaEngine*>{&first, &second}); }), "(no error)");
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
  const std::string error = error_of([&] { client_->compile("module { not a program }", 1); });
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
