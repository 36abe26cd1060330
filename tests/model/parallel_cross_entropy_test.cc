// Cross-entropy with the vocabulary cut over devices is that of one device; and so is the embedding.
#include "model/parallel_cross_entropy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "cpu/cross_entropy_case.h"
#include "engines/dry/dry_engine.h"
#include "mesh/device_program.h"

namespace maxtext::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Runs `program` on `devices` devices along both axes of tensor parallelism.
void run_on_devices(int devices, const std::function<void(CpuEngine& engine, int device)>& program) {
  ThreadTransport transport(Mesh({1, 1, 1, devices}, devices % 2 == 0 ? 2 : 1));
  run_devices(
      transport.local_devices(),
      [&](int device) {
        const auto communicator = transport.communicator(device);
        CpuEngine engine({.threads = 1}, *communicator);
        program(engine, device);
      },
      [&](int device, const std::string& reason) { transport.abort(device, reason); });
}

/// The rows of `values` [V, E] that device `part` of `parts` has.
Doubles part_of(const Doubles& values, int part, int parts) {
  const std::ptrdiff_t size = std::ssize(values) / parts;
  return {values.begin() + part * size, values.begin() + (part + 1) * size};
}

CrossEntropyCase case_of_part(const CrossEntropyCase& c, int part, int parts) {
  CrossEntropyCase mine = c;
  mine.vocabulary = c.vocabulary / parts;
  mine.weight = part_of(c.weight, part, parts);
  mine.destination = part_of(c.destination, part, parts);
  return mine;
}

struct Loss {
  Doubles sums;
  std::vector<float> nll;
  Doubles dhidden, dweight;
};

template <typename T>
Loss loss_of(Engine& engine, const std::vector<Tensor>& outputs) {
  const auto wide = [&](const Tensor& tensor) {
    const std::vector<T> values = get<T>(engine, tensor);
    return Doubles(values.begin(), values.end());
  };
  Loss loss{
      .sums = get<double>(engine, outputs[0]), .nll = get<float>(engine, outputs[1]), .dhidden = {}, .dweight = {}};
  if (outputs.size() == 2) return loss;
  loss.dhidden = wide(outputs[2]);
  loss.dweight = wide(outputs[3]);
  return loss;
}

/// On `parts` devices: their dhidden summed, their dweight joined; sums and nll are the same bits on all.
template <typename T>
Loss parallel_loss(const CrossEntropyCase& c, const LinearCrossEntropy& op, int parts) {
  std::vector<Loss> losses(static_cast<std::size_t>(parts));
  run_on_devices(parts, [&](CpuEngine& engine, int device) {
    const CrossEntropyCase mine = case_of_part(c, device, parts);
    std::vector<Tensor> inputs = case_inputs<T>(engine, mine);
    if (c.tokens % 2 == 0) {  // in two rows, as the decoder has them
      inputs[0] = inputs[0].view(0, {2, c.tokens / 2, c.width});
      for (const std::size_t i : {2U, 3U}) inputs[i] = inputs[i].view(0, {2, c.tokens / 2});
    }
    if (op.with_gradient) inputs.push_back(put(engine, {mine.vocabulary, c.width}, narrow<T>(mine.destination)));
    const Tensor first =
        put(engine, {}, std::vector<std::int32_t>{static_cast<std::int32_t>(device * mine.vocabulary)});
    const std::vector<Tensor> outputs = vocabulary_parallel_cross_entropy(engine, op, inputs, first);
    EXPECT_EQ(outputs[1].shape(), inputs[2].shape());
    if (op.with_gradient) {
      EXPECT_EQ(outputs[2].shape(), inputs[0].shape());
    }
    losses[static_cast<std::size_t>(device)] = loss_of<T>(engine, outputs);
  });
  Loss joined = losses[0];
  for (int device = 1; device < parts; ++device) {
    const Loss& other = losses[static_cast<std::size_t>(device)];
    EXPECT_EQ(std::memcmp(other.sums.data(), joined.sums.data(), 2 * sizeof(double)), 0) << device;
    EXPECT_TRUE(bitwise_equal(other.nll, joined.nll)) << device;
    for (std::size_t i = 0; i < joined.dhidden.size(); ++i) joined.dhidden[i] += other.dhidden[i];
    joined.dweight.insert(joined.dweight.end(), other.dweight.begin(), other.dweight.end());
  }
  return joined;
}

template <typename T>
Loss fused_loss(const CrossEntropyCase& c, const LinearCrossEntropy& op) {
  CpuDevice device(1);
  return loss_of<T>(*device, run_case<T>(*device, c, op));
}

void expect_close(const Loss& found, const Loss& expected, double tolerance, const std::string& what) {
  const auto close = [&](const Doubles& actual, const Doubles& values, const char* name) {
    EXPECT_TRUE(
        all_close(std::span<const double>(actual), std::span<const double>(values), tolerance, what + ", " + name));
  };
  close(found.sums, expected.sums, "sums");
  EXPECT_TRUE(all_close(found.nll, expected.nll, std::max(tolerance, 1e-7), what + ", nll"));
  close(found.dhidden, expected.dhidden, "dhidden");
  close(found.dweight, expected.dweight, "dweight");
}

/// Tokens of weight 0 hold NaN and no target.
CrossEntropyCase dirty_case(std::int64_t tokens, std::int64_t width, std::int64_t vocabulary) {
  CrossEntropyCase c = make_case(tokens, width, vocabulary);
  for (std::size_t t = 0; t < c.weights.size(); ++t) {
    if (c.weights[t] != 0) continue;
    c.targets[t] = t % 2 == 0 ? -1 : static_cast<std::int32_t>(vocabulary);
    std::fill_n(c.hidden.begin() + static_cast<std::ptrdiff_t>(t) * width, width, static_cast<double>(kNaN));
  }
  return c;
}

class ParallelCrossEntropy : public ::testing::TestWithParam<int> {
 protected:
  int parts() const { return GetParam(); }

  void expect_fused(const CrossEntropyCase& c, const LinearCrossEntropy& op, const std::string& what) const {
    expect_close(parallel_loss<float>(c, op, parts()), fused_loss<float>(c, op), 1e-5, what + ", float32");
    expect_close(parallel_loss<double>(c, op, parts()), fused_loss<double>(c, op), 1e-12, what + ", float64");
  }
};

TEST_P(ParallelCrossEntropy, EqualsTheFusedOpInChunksOfAnySize) {
  const CrossEntropyCase c = dirty_case(50, 9, 36);
  std::set<std::int64_t> parts_with_targets;
  for (std::size_t t = 0; t < c.weights.size(); ++t) {
    if (c.weights[t] != 0) parts_with_targets.insert(c.targets[t] / (36 / parts()));
  }
  ASSERT_EQ(std::ssize(parts_with_targets), parts());
  for (const double softcap : {0.0, 0.7, 30.0}) {
    for (const std::int64_t chunk : {1, 7, 25, 1024}) {
      LinearCrossEntropy op{.chunk_tokens = chunk, .z_loss_multiplier = 1e-2, .softcap = softcap};
      const std::string what = "softcap " + std::to_string(softcap) + ", chunk " + std::to_string(chunk);
      expect_fused(c, op, what);
      op.accumulate = false;
      expect_fused(c, op, what + ", stored");
      op.with_gradient = false;
      expect_fused(c, op, what + ", without gradient");
    }
  }
}

TEST_P(ParallelCrossEntropy, EqualsTheFormula) {
  const CrossEntropyCase c = make_case(20, 9, 8400);
  for (const double softcap : {0.0, 5.0}) {
    const LinearCrossEntropy op{.chunk_tokens = 7, .z_loss_multiplier = 1e-2, .softcap = softcap};
    const Expected e = reference(c, 1e-2, softcap);
    Loss expected{.sums = e.sums, .nll = {e.nll.begin(), e.nll.end()}, .dhidden = e.dhidden, .dweight = e.dweight};
    for (std::size_t i = 0; i < expected.dweight.size(); ++i) expected.dweight[i] += c.destination[i];
    expect_close(parallel_loss<double>(c, op, parts()), expected, 1e-12, "float64");
    expect_close(parallel_loss<float>(c, op, parts()), expected, 1e-5, "float32");
  }
}

TEST_P(ParallelCrossEntropy, OnePartsLogitsAreHuge) {
  for (const double level : {-1e6, 1e4}) {
    CrossEntropyCase c = make_case(20, 9, 36);
    // One direction of hidden states that the last part's rows alone see.
    for (std::size_t t = 0; t < 20; ++t) c.hidden[t * 9] = 1;
    for (std::size_t v = 0; v < 36; ++v) c.weight[v * 9] = v >= 27 ? level : 0;
    expect_fused(c, {.chunk_tokens = 7, .z_loss_multiplier = 1e-9}, "level " + std::to_string(level));
  }
}

TEST_P(ParallelCrossEntropy, OnePartsLogitsAreMinusInfinity) {
  CrossEntropyCase c = make_case(20, 9, 36);
  for (std::size_t t = 0; t < 20; ++t) {
    for (std::size_t i = 0; i < 9; ++i) c.hidden[t * 9 + i] = 0.1 + std::abs(c.hidden[t * 9 + i]);
    c.targets[t] %= 9;
  }
  std::fill(c.weight.begin() + 27 * 9, c.weight.end(), -std::numeric_limits<double>::infinity());
  // Gradients would multiply the infinite weights by zeros, on one device, too.
  const LinearCrossEntropy op{.chunk_tokens = 7, .z_loss_multiplier = 1e-2, .with_gradient = false};
  const Loss found = parallel_loss<float>(c, op, parts());
  for (const float nll : found.nll) EXPECT_TRUE(std::isfinite(nll));
  expect_fused(c, op, "without gradient");
}

TEST_P(ParallelCrossEntropy, GradientIsThatOfTheWeightedSums) {
  CrossEntropyCase c = make_case(3, 2, 12);
  const LinearCrossEntropy op{.chunk_tokens = 2, .z_loss_multiplier = 0.05, .softcap = 1.5, .accumulate = false};
  const auto loss = [&] {
    const Doubles sums = parallel_loss<double>(c, op, parts()).sums;
    return (sums[0] + sums[1]) * static_cast<double>(c.inverse_denominator);
  };
  const auto expect_gradient = [&](Doubles& values, const Doubles& gradient, const char* name) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double saved = values[i];
      values[i] = saved + 1e-5;
      const double above = loss();
      values[i] = saved - 1e-5;
      EXPECT_NEAR((above - loss()) / 2e-5, gradient[i], 1e-9) << name << " " << i;
      values[i] = saved;
    }
  };
  const Loss analytic = parallel_loss<double>(c, op, parts());
  expect_gradient(c.hidden, analytic.dhidden, "dhidden");
  expect_gradient(c.weight, analytic.dweight, "dweight");
}

TEST_P(ParallelCrossEntropy, NothingToLearnIsZero) {
  CrossEntropyCase c = make_case(5, 4, 12);
  c.weights.assign(5, 0);
  const Loss found = parallel_loss<float>(c, {.chunk_tokens = 2}, parts());
  EXPECT_EQ(found.sums, (Doubles{0, 0}));
  EXPECT_EQ(found.nll, std::vector<float>(5, 0));
  EXPECT_EQ(found.dhidden, Doubles(20, 0));
}

TEST_P(ParallelCrossEntropy, EmbeddingsOfThePartsAddUpToTheLookup) {
  const std::vector<float> table = random_values<float>(36 * 5, 1);
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 50; ++i) ids.push_back(i * 7 % 36);
  CpuDevice device(1);
  const std::vector<float> expected =
      get<float>(*device, device->apply_one(Embedding{}, {put(*device, {36, 5}, table), put(*device, {50}, ids)}));
  std::vector<std::vector<float>> found(static_cast<std::size_t>(parts()));
  run_on_devices(parts(), [&](CpuEngine& engine, int part) {
    const std::ptrdiff_t rows = 36 / parts();
    const std::vector<float> mine(table.begin() + part * rows * 5, table.begin() + (part + 1) * rows * 5);
    const Tensor first = put(engine, {}, std::vector<std::int32_t>{static_cast<std::int32_t>(part * rows)});
    const Tensor y = engine.apply_one(Embedding{}, {put(engine, {rows, 5}, mine), put(engine, {50}, ids), first});
    found[static_cast<std::size_t>(part)] =
        get<float>(engine, engine.apply_one(AllReduce{.axes = kTensorAxes, .group_size = parts()}, {y}));
  });
  for (const std::vector<float>& rows : found) EXPECT_TRUE(bitwise_equal(rows, expected));
}

INSTANTIATE_TEST_SUITE_P(Parts, ParallelCrossEntropy, ::testing::Values(1, 2, 3, 4));

/// The inputs of one of two devices, without data.
std::vector<Tensor> dry_inputs(Engine& engine, std::int64_t tokens, std::int64_t width, std::int64_t vocabulary) {
  const auto make = [&](Shape shape, DType dtype = DType::float32) {
    return engine.allocate({std::move(shape), dtype});
  };
  return {make({tokens, width}),
          make({vocabulary / 2, width}),
          make({tokens}, DType::int32),
          make({tokens}),
          make({}),
          make({vocabulary / 2, width})};
}

TEST(ParallelCrossEntropyProgram, SendsThreeNumbersPerTokenAndNothingElse) {
  DryEngine engine(Mesh({1, 1, 1, 2}), 0);
  std::vector<Tensor> inputs = dry_inputs(engine, 5000, 8, 64);
  const Tensor first = engine.allocate({{}, DType::int32});
  for (const bool with_gradient : {true, false}) {
    engine.reset_records();
    if (!with_gradient) inputs.pop_back();
    vocabulary_parallel_cross_entropy(engine, {.with_gradient = with_gradient}, inputs, first);
    ASSERT_EQ(engine.collectives().size(), 5U);
    std::int64_t bytes = 0;
    for (const RecordedCollective& collective : engine.collectives()) {
      EXPECT_EQ(collective.kind, CollectiveKind::all_gather);
      EXPECT_EQ(collective.axes, kTensorAxes);
      bytes += collective.bytes;
    }
    EXPECT_EQ(bytes, 5000 * 3 * 4);
  }
}

/// Bytes that the loss holds beside its inputs and outputs at its peak, on one of two devices.
std::int64_t held(const LinearCrossEntropy& loss, std::int64_t tokens, std::int64_t width, std::int64_t vocabulary) {
  DryEngine engine(Mesh({1, 1, 1, 2}), 0);
  std::vector<Tensor> inputs = dry_inputs(engine, tokens, width, vocabulary);
  const Tensor first = engine.allocate({{}, DType::int32});
  if (!loss.with_gradient) inputs.pop_back();
  const std::int64_t before = engine.memory().live_bytes();
  engine.memory().reset_peak();
  const std::vector<Tensor> outputs = vocabulary_parallel_cross_entropy(engine, loss, inputs, first);
  return engine.memory().peak_bytes() - before - (loss.with_gradient ? tokens * width * 4 : 0);
}

TEST(ParallelCrossEntropyProgram, HoldsNoMoreLogitsThanTheFusedOpOfTheWholeVocabulary) {
  const std::int64_t tokens = 8192, width = 64;
  // A chunk of masked hidden states, statistics of the group's two chunks, and nll.
  const std::int64_t rest = 1024 * width * 4 + 2 * 1024 * 3 * 4 * 3 + 3 * tokens * 4;
  for (const std::int64_t vocabulary : {2000, 32000, 128256, 1 << 20}) {
    const std::int64_t fused = cross_entropy_chunk_tokens(1024, vocabulary, 4) * vocabulary * 4;
    EXPECT_LE(held({}, tokens, width, vocabulary), fused + rest) << vocabulary;
    EXPECT_LE(held({.with_gradient = false}, tokens, width, vocabulary), fused + rest) << vocabulary;
    if (vocabulary == 1 << 20) continue;  // the fused op is granted more memory there, for 256 tokens
    EXPECT_GE(held({}, tokens, width, vocabulary), fused * 9 / 10) << "chunks are shorter than need be";
  }
}

TEST(ParallelCrossEntropyProgram, ShapesAreThoseOfTheFusedOp) {
  DryEngine engine(Mesh({1, 1, 1, 2}), 0);
  std::vector<Tensor> inputs = dry_inputs(engine, 6, 4, 10);
  const Tensor first = engine.allocate({{}, DType::int32});
  inputs[2] = engine.allocate({{5}, DType::int32});
  EXPECT_THAT([&] { vocabulary_parallel_cross_entropy(engine, {}, inputs, first); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("targets")));
}

}  // namespace
}  // namespace maxtext::testing
