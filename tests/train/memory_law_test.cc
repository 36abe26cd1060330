// What a step holds and recomputes, counted on shapes: nothing grows with the square of the sequence, activations
// shrink with the devices, no more is gathered at once than two layers and two groups of KV heads.
#include <gtest/gtest.h>

#include <cmath>

#include "engines/cpu/cpu_engine.h"
#include "engines/dry/dry_engine.h"
#include "mesh/thread_transport.h"
#include "testing_model/clock_engine.h"
#include "testing_model/step_run.h"

namespace maxtext::testing {
namespace {

ModelShape shape_8b(std::int64_t layers) {
  ModelShape shape;
  shape.vocab_size = 128256;
  shape.head_dim = 128;
  shape.hidden_size = 4096;
  shape.intermediate_size = 14336;
  shape.layers = layers;
  shape.query_heads = 32;
  shape.kv_heads = 8;
  shape.layer_windows.assign(static_cast<std::size_t>(layers), 0);
  shape.query_scale = 0.088;
  return shape;
}

StepCase long_case(std::int64_t layers, std::array<int, 4> mesh, const char* remat, std::int64_t length) {
  StepCase step{.name = {}, .shape = shape_8b(layers), .mesh = mesh, .remat = remat, .micro_batches = 1, .batch = {}};
  const std::int64_t rows = mesh[0] * mesh[1];
  step.batch.rows = rows;
  step.batch.sequence_length = length;
  step.batch.document_lengths.assign(static_cast<std::size_t>(rows), {length});
  return step;
}

ClockEngine counted(const StepCase& step) {
  ClockEngine engine(Mesh(step.mesh), 0, {});
  dry_step(setup_of(step), plan_of(step), engine, [&] { engine.restart(); });
  return engine;
}

std::int64_t peak(const StepCase& step) {
  DryEngine engine(Mesh(step.mesh), 0);
  dry_step(setup_of(step), plan_of(step), engine);
  return engine.memory().peak_bytes();
}

std::int64_t activations(const StepCase& step) { return counted(step).most_bytes(MemoryKind::activations); }

TEST(MemoryLaw, TwiceTheLengthTakesTwiceTheMemory) {
  for (const int cp : {1, 4}) {
    for (const char* remat : {"full", "minimal", "none"}) {
      EXPECT_LE(static_cast<double>(peak(long_case(4, {1, 1, cp, 1}, remat, 65536))),
                2.1 * static_cast<double>(peak(long_case(4, {1, 1, cp, 1}, remat, 32768))))
          << remat << " cp " << cp;
    }
  }
}

TEST(MemoryLaw, ActivationsShrinkWithContextParallelism) {
  const std::int64_t length = 65536;
  const std::int64_t alone = activations(long_case(8, {1, 1, 1, 1}, "full", length));
  // What does not shrink: two groups of gathered keys and values, and one group's gradients of them.
  const std::int64_t gathered = 3 * 2 * length * 128 * 4;
  // Local K and V by group, beside K and V.
  for (const int cp : {2, 4, 8, 16}) {
    const std::int64_t slots = length / cp;
    const std::int64_t parts = 4 * slots * 8 * 128 * 4;
    EXPECT_LE(activations(long_case(8, {1, 1, cp, 1}, "full", length)), alone / cp + gathered + parts) << cp;
  }
}

TEST(MemoryLaw, AtMostTwoLayersAndTwoGroupsOfKvHeadsAreGathered) {
  for (const char* remat : {"full", "minimal", "none"}) {
    for (const std::array<int, 4> mesh : {std::array<int, 4>{1, 1, 4, 1}, {1, 4, 1, 1}, {1, 2, 2, 1}}) {
      const StepCase step = long_case(5, mesh, remat, 8192);
      const ClockEngine engine = counted(step);
      const ModelLayout layout = model_layout(step.shape, Mesh({1, 4, 1, 1}), 0);
      const std::int64_t layer = layout.groups[layout.layer_group(0)].length() * 4;
      const std::int64_t head = layout.groups[layout.head_group()].length() * 4;
      EXPECT_LE(engine.most_bytes(MemoryKind::gathered_parameters), std::max(2 * layer, layer + head)) << remat;
      EXPECT_EQ(engine.most_gathered(kShardAxes), 2) << remat;
      if (mesh[2] > 1) {
        EXPECT_EQ(engine.most_gathered(Axis::context), 2) << remat;
      }
    }
  }
}

TEST(Rematerialisation, IsCounted) {
  const int layers = 5;
  for (const int cp : {1, 2}) {
    const int groups = cp == 1 ? 1 : 8;
    const ClockEngine full = counted(long_case(layers, {1, 1, cp, 1}, "full", 4096));
    EXPECT_EQ(full.runs("attention_forward"), 2 * layers * groups);
    // Seven projections a layer; all but the last are recomputed.
    EXPECT_EQ(full.runs("linear"), (7 + 6) * layers);
    const ClockEngine minimal = counted(long_case(layers, {1, 1, cp, 1}, "minimal", 4096));
    EXPECT_EQ(minimal.runs("linear"), 7 * layers);
    EXPECT_EQ(minimal.runs("attention_forward"), 2 * layers * groups);
    const ClockEngine none = counted(long_case(layers, {1, 1, cp, 1}, "none", 4096));
    EXPECT_EQ(none.runs("linear"), 7 * layers);
    EXPECT_EQ(none.runs("attention_forward"), layers * groups);
    for (const ClockEngine* engine : {&full, &minimal, &none}) {
      EXPECT_EQ(engine->runs("attention_backward"), layers * groups);
      EXPECT_EQ(engine->runs("linear_backward_weight"), 7 * layers);
      EXPECT_EQ(engine->runs("linear_cross_entropy"), 1);
      // Elementwise work is done at most three times.
      EXPECT_LE(engine->runs("rms_norm"), 3 * 2 * layers + 1);
      EXPECT_LE(engine->runs("rope"), 3 * 2 * layers);
      EXPECT_LE(engine->runs("gated_activation"), 2 * layers);
    }
  }
}

TEST(Rematerialisation, LessKeptIsLessHeld) {
  for (const int cp : {1, 2, 8}) {
    for (const std::int64_t layers : {2, 8}) {
      const std::array<int, 4> mesh = {1, 1, cp, 1};
      const std::int64_t full = activations(long_case(layers, mesh, "full", 32768));
      const std::int64_t minimal = activations(long_case(layers, mesh, "minimal", 32768));
      const std::int64_t none = activations(long_case(layers, mesh, "none", 32768));
      RecordProperty("cp" + std::to_string(cp) + "_layers" + std::to_string(layers),
                     std::to_string(full) + " " + std::to_string(minimal) + " " + std::to_string(none));
      EXPECT_LE(full, minimal) << "cp " << cp << " layers " << layers;
      EXPECT_LE(minimal, none) << "cp " << cp << " layers " << layers;
    }
  }
}

/// Beyond the layers' inputs, `full` holds what one layer's backward reads at its widest point: gate, up, their product
/// and its gradient (4 M), and of the width of the residual stream its cotangent, the stream between the blocks, q and
/// o, with k and v beside.
TEST(Rematerialisation, FullHoldsLayerInputsAndOneLayer) {
  const std::int64_t slots = 32768;
  for (const std::int64_t layers : {4, 12}) {
    const StepCase step = long_case(layers, {1, 1, 1, 1}, "full", slots);
    const std::int64_t width = 4096;
    const std::int64_t kv = 2 * 8 * 128;
    const std::int64_t rope_and_logsumexp = 128 + 32;
    const std::int64_t layer = 4 * 14336 + 4 * width + kv + rope_and_logsumexp;
    const std::int64_t bytes = (layers * width + layer) * slots * 4;
    EXPECT_LE(activations(step), bytes + bytes / 1000) << layers;
  }
}

/// 32768 tokens with Llama 3's vocabulary: logits would take 16 GiB. An eighth of the tokens counts, so that the test
/// is quick; their logits alone would take 2 GiB.
TEST(MemoryLaw, CrossEntropyTakesLessThanAGibibyte) {
  ThreadTransport transport{Mesh({1, 1, 1, 1})};
  const auto communicator = transport.communicator(0);
  CpuEngine engine({.threads = 2}, *communicator);
  const std::int64_t tokens = 32768;
  const std::int64_t vocabulary = 128256;
  const std::int64_t width = 8;
  const Tensor hidden = engine.apply_one(Fill{.spec = {{tokens, width}, DType::float32}, .value = 0.5}, {});
  const Tensor weight = engine.apply_one(Fill{.spec = {{vocabulary, width}, DType::float32}, .value = 0.25}, {});
  const Tensor gradient = engine.apply_one(Fill{.spec = {{vocabulary, width}, DType::float32}, .value = 0}, {});
  std::vector<std::int32_t> targets(static_cast<std::size_t>(tokens), 5);
  std::vector<float> weights(static_cast<std::size_t>(tokens), 0.0F);
  for (std::size_t i = 0; i < weights.size(); i += 8) weights[i] = 1;
  const Tensor target = engine.input({{tokens}, DType::int32}, std::as_bytes(std::span(targets)));
  const Tensor target_weight = engine.input({{tokens}, DType::float32}, std::as_bytes(std::span(weights)));
  const Tensor inverse = engine.apply_one(Fill{.spec = {{}, DType::float32}, .value = 1}, {});
  const std::int64_t before = engine.pooled_bytes();
  const std::vector<Tensor> outputs =
      engine.apply(LinearCrossEntropy{}, {hidden, weight, target, target_weight, inverse, gradient});
  EXPECT_LT(engine.pooled_bytes() - before, std::int64_t{1} << 30);
  double sums[2];
  engine.read(outputs[0], std::as_writable_bytes(std::span(sums)));
  EXPECT_NEAR(sums[0], 4096 * std::log(static_cast<double>(vocabulary)), 1e-2);  // all logits are equal
}

}  // namespace
}  // namespace maxtext::testing
