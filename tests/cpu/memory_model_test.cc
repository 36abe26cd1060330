// The memory that is predicted from shapes is what an engine takes when it really runs the op.
#include "engines/cpu/memory_model.h"

#include <gtest/gtest.h>

#include <functional>

#include "cpu/device.h"
#include "engines/cpu/scratch_bytes.h"

namespace maxtext::testing {
namespace {

struct Held {
  std::int64_t really = 0;
  std::int64_t predicted = 0;
};

/// One op on a fresh engine, whose inputs `make` puts there.
Held run_op(const Op& op, int threads, const std::function<std::vector<Tensor>(Engine&)>& make) {
  CpuDevice device(threads);
  CpuMemoryModel model(threads);
  std::vector<std::shared_ptr<void>> blocks;
  std::vector<TensorSpec> specs;
  const std::vector<Tensor> inputs = make(*device);
  for (const Tensor& input : inputs) {
    specs.push_back(input.spec());
    blocks.push_back(model.allocate(input.spec().bytes()));
  }
  for (const OutputSpec& output : infer(op, specs)) {
    if (output.aliases_input < 0) blocks.push_back(model.allocate(output.spec.bytes()));
  }
  model.execute(op, specs);
  const std::vector<Tensor> outputs = device->apply(op, inputs);
  return {device->pooled_bytes(), model.pool_bytes() + model.workspace_bytes()};
}

Tensor filled(Engine& engine, Shape shape, DType dtype, double value = 0.5) {
  return engine.apply_one(Fill{{std::move(shape), dtype}, value}, {});
}

struct AttentionCase {
  std::int64_t batch, length, query_heads, kv_heads, head_dim, devices;
  DType dtype = DType::float32;
  int threads = 1;
};

/// Causal attention of the last of `devices` parts of a sequence, on keys gathered from all.
std::vector<Tensor> attention_inputs(Engine& engine, const AttentionCase& c, bool backward) {
  const std::int64_t keys = c.length * c.devices;
  std::vector<std::int32_t> slots, begin(static_cast<std::size_t>(c.batch * c.length), 0), end;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    for (std::int64_t j = 0; j < keys; ++j) slots.push_back(static_cast<std::int32_t>(j));
    for (std::int64_t i = keys - c.length; i < keys; ++i) end.push_back(static_cast<std::int32_t>(i + 1));
  }
  const Shape rows{c.batch, c.length, c.query_heads, c.head_dim};
  const Shape gathered{c.devices, c.batch, c.length, c.kv_heads, c.head_dim};
  std::vector<Tensor> inputs{filled(engine, rows, c.dtype),           filled(engine, gathered, c.dtype),
                             filled(engine, gathered, c.dtype),       put(engine, {c.batch, keys}, slots),
                             put(engine, {c.batch, c.length}, begin), put(engine, {c.batch, c.length}, end)};
  if (!backward) return inputs;
  inputs.push_back(filled(engine, rows, c.dtype));
  inputs.push_back(filled(engine, {c.batch, c.query_heads, c.length}, c.dtype, 9.0));
  inputs.push_back(filled(engine, rows, c.dtype));
  return inputs;
}

TEST(CpuMemoryModel, AttentionTakesWhatIsPredicted) {
  for (const AttentionCase& c : std::vector<AttentionCase>{{1, 300, 4, 2, 64, 1},
                                                           {2, 257, 6, 1, 40, 1, DType::float32, 2},
                                                           {1, 128, 12, 12, 16, 3},
                                                           {3, 65, 2, 2, 8, 2, DType::float64, 2},
                                                           {1, 2, 16, 1, 128, 1}}) {
    const std::string what = std::to_string(c.length) + " x " + std::to_string(c.head_dim);
    const Held forward = run_op(AttentionForward{.scale = 1, .kv_heads = c.kv_heads}, c.threads,
                                [&](Engine& engine) { return attention_inputs(engine, c, false); });
    EXPECT_EQ(forward.predicted, forward.really) << what;
    const Held backward = run_op(AttentionBackward{.scale = 1, .kv_heads = c.kv_heads}, c.threads,
                                 [&](Engine& engine) { return attention_inputs(engine, c, true); });
    EXPECT_EQ(backward.predicted, backward.really) << what;
    EXPECT_GT(backward.predicted, forward.predicted) << what;
  }
}

/// What it takes depends on which tokens count; with one that does not, the others are gathered into chunks.
TEST(CpuMemoryModel, CrossEntropyTakesNearlyWhatIsPredictedAndNeverMore) {
  for (const bool gathered : {true, false}) {
    for (const std::int64_t chunk : {64, 1024}) {
      const std::int64_t tokens = 800;
      const Held held = run_op(LinearCrossEntropy{.chunk_tokens = chunk}, 1, [&](Engine& engine) {
        std::vector<float> weights(static_cast<std::size_t>(tokens), 1.0F);
        if (gathered) weights[20] = 0;
        std::vector<std::int32_t> targets(weights.size(), 3);
        return std::vector<Tensor>{filled(engine, {tokens, 48}, DType::float32),
                                   filled(engine, {3000, 48}, DType::float32),
                                   put(engine, {tokens}, targets),
                                   put(engine, {tokens}, weights),
                                   put(engine, {}, std::vector<float>{1.0F}),
                                   filled(engine, {3000, 48}, DType::float32)};
      });
      EXPECT_GE(held.predicted, held.really);
      EXPECT_LE(static_cast<double>(held.predicted), 1.1 * static_cast<double>(held.really));
    }
  }
}

TEST(CpuMemoryModel, CrossEntropyOverPartsOfTheVocabularyTakesWhatIsPredicted) {
  const std::int64_t tokens = 100, rows = 3000;
  const Held statistics = run_op(LogitStatistics{}, 2, [&](Engine& engine) {
    return std::vector<Tensor>{filled(engine, {tokens, rows}, DType::float32),
                               filled(engine, {tokens}, DType::int32, 3), filled(engine, {}, DType::int32, 0)};
  });
  EXPECT_EQ(statistics.predicted, statistics.really);
  const Held loss = run_op(CrossEntropyFromStatistics{.vocabulary = 2 * rows, .softcap = 2}, 2, [&](Engine& engine) {
    return std::vector<Tensor>{filled(engine, {2, 3, tokens}, DType::float32),
                               filled(engine, {tokens}, DType::int32, 3),
                               filled(engine, {tokens}, DType::float32),
                               filled(engine, {tokens, rows}, DType::float32),
                               filled(engine, {}, DType::float32),
                               filled(engine, {}, DType::int32, 0)};
  });
  EXPECT_EQ(loss.predicted, loss.really);
  const Held mask = run_op(MaskRows{}, 2, [&](Engine& engine) {
    return std::vector<Tensor>{filled(engine, {tokens, 300}, DType::float32), filled(engine, {tokens}, DType::float32)};
  });
  EXPECT_EQ(mask.predicted, mask.really);
}

TEST(CpuMemoryModel, OtherOpsTakeWhatIsPredicted) {
  const auto f32 = DType::float32;
  for (const std::int64_t rows : {1, 47, 48, 50, 200, 1000}) {
    const Held linear = run_op(Linear{}, 1, [&](Engine& engine) {
      return std::vector<Tensor>{filled(engine, {rows, 96}, f32), filled(engine, {200, 96}, f32)};
    });
    EXPECT_EQ(linear.predicted, linear.really) << rows;
    const Held norm = run_op(RmsNormBackward{}, 2, [&](Engine& engine) {
      return std::vector<Tensor>{filled(engine, {rows, 96}, f32), filled(engine, {rows, 96}, f32),
                                 filled(engine, {96}, f32), filled(engine, {96}, f32)};
    });
    EXPECT_EQ(norm.predicted, norm.really) << rows;
    const Held bias = run_op(BiasBackward{}, 1, [&](Engine& engine) {
      return std::vector<Tensor>{filled(engine, {rows, 96}, f32), filled(engine, {96}, f32)};
    });
    EXPECT_EQ(bias.predicted, bias.really) << rows;
    const Held add = run_op(Add{}, 1, [&](Engine& engine) {
      return std::vector<Tensor>{filled(engine, {rows, 96}, f32), filled(engine, {rows, 96}, f32)};
    });
    EXPECT_EQ(add.predicted, add.really) << rows;
  }
}

Tensor stored(Engine& engine, Shape shape, DType dtype) {
  const TensorSpec spec{std::move(shape), dtype};
  return engine.input(spec, std::vector<std::byte>(static_cast<std::size_t>(spec.bytes())));
}

TEST(CpuMemoryModel, WeightsAsTheyAreStoredTakeWhatIsPredicted) {
  const auto f32 = DType::float32;
  for (const std::int64_t rows : {1, 48, 50, 200}) {
    // The second weight is widened in parts.
    for (const auto& [out, in] : std::vector<std::pair<std::int64_t, std::int64_t>>{{200, 96}, {1200, 2048}}) {
      const Held linear = run_op(Linear{}, 2, [&, o = out, i = in](Engine& engine) {
        return std::vector<Tensor>{filled(engine, {rows, i}, f32), stored(engine, {o, i}, DType::bfloat16),
                                   stored(engine, {o}, DType::bfloat16)};
      });
      EXPECT_EQ(linear.predicted, linear.really) << rows << " rows, " << out << "x" << in;
    }
    const Held norm = run_op(RmsNorm{}, 1, [&](Engine& engine) {
      return std::vector<Tensor>{filled(engine, {rows, 96}, f32), stored(engine, {96}, DType::float16)};
    });
    EXPECT_EQ(norm.predicted, norm.really) << rows;
  }
}

TEST(CpuMemoryModel, AnOpWithoutScratchTakesNone) {
  const std::vector<TensorSpec> specs{{{5, 7}, DType::float32}, {{5, 7}, DType::float32}};
  const OpScratch scratch = scratch_bytes(Add{}, specs, 4);
  EXPECT_EQ(scratch.workspace_bytes, 0);
  EXPECT_TRUE(scratch.pool_blocks.empty());
}

TEST(CpuMemoryModel, KeepsTheLargestWorkspaceAndReusesThePool) {
  CpuMemoryModel model(1);
  const std::shared_ptr<void> kept = model.allocate(1000);
  model.allocate(5000);
  model.allocate(4000);
  EXPECT_EQ(model.pool_bytes(), 1024 + 5056);
  const std::vector<TensorSpec> specs{{{1, 64, 2, 16}, DType::float32},
                                      {{1, 1, 64, 2, 16}, DType::float32},
                                      {{1, 1, 64, 2, 16}, DType::float32},
                                      {{1, 64}, DType::int32},
                                      {{1, 64}, DType::int32},
                                      {{1, 64}, DType::int32}};
  model.execute(AttentionForward{.kv_heads = 2}, specs);
  const std::int64_t workspace = model.workspace_bytes();
  EXPECT_GT(workspace, 0);
  model.execute(AttentionForward{.kv_heads = 2}, specs);
  EXPECT_EQ(model.workspace_bytes(), workspace);
}

}  // namespace
}  // namespace maxtext::testing
