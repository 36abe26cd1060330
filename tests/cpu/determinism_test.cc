// Results do not depend on the number of threads, bit for bit, and a row of Linear depends on nothing but itself.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "cpu/device.h"
#include "testing/compare.h"

namespace maxtext::testing {
namespace {

using Program = std::function<std::vector<Tensor>(Engine& engine)>;

/// All results of a program as bytes.
std::vector<std::vector<std::byte>> results(int threads, const Program& program) {
  CpuDevice device(threads);
  std::vector<std::vector<std::byte>> all;
  for (const Tensor& tensor : program(*device)) {
    all.emplace_back(static_cast<std::size_t>(tensor.spec().bytes()));
    device->read(tensor, all.back());
  }
  return all;
}

void expect_thread_independent(const Program& program, std::string_view name) {
  const auto one = results(1, program);
  for (const int threads : {2, 3, 4}) {
    const auto several = results(threads, program);
    ASSERT_EQ(several.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_TRUE(several[i] == one[i]) << name << ", result " << i << ", threads " << threads;
    }
  }
}

TEST(Determinism, MatrixProducts) {
  for (const std::int64_t rows : {3, 64, 300, 1030}) {
    for (const auto& [out, in] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{128, 2048}, {1024, 1408}, {37, 513}, {600, 65}}) {
      expect_thread_independent(
          [&, o = out, i = in](Engine& engine) {
            const Tensor x = random<float>(engine, {rows, i}, 1), w = random<float>(engine, {o, i}, 2);
            const Tensor dy = random<float>(engine, {rows, o}, 3), dw = random<float>(engine, {o, i}, 4);
            return std::vector<Tensor>{engine.apply_one(Linear{}, {x, w}),
                                       engine.apply_one(LinearBackwardInput{}, {dy, w}),
                                       engine.apply_one(LinearBackwardWeight{}, {dy, x, dw})};
          },
          "linear of " + std::to_string(rows) + " rows, " + std::to_string(out) + "x" + std::to_string(in));
    }
  }
}

TEST(Determinism, RowWiseAndElementwiseOps) {
  expect_thread_independent(
      [](Engine& engine) {
        const Tensor x = random<float>(engine, {1000, 70}, 1), dy = random<float>(engine, {1000, 70}, 2);
        const Tensor w = random<float>(engine, {70}, 3);
        const std::vector<Tensor> norm = engine.apply(RmsNormBackward{}, {dy, x, w, random<float>(engine, {70}, 4)});
        const std::vector<Tensor> gate = engine.apply(GatedActivationBackward{}, {dy, x, dy});
        const Tensor bias = engine.apply_one(BiasBackward{}, {dy, random<float>(engine, {70}, 5)});
        const Tensor flat = engine.apply_one(Reshape{{70000}}, {x});
        const Tensor ranges = put(engine, {2, 2}, std::vector<std::int64_t>{0, 50001, 50001, 70000});
        return std::vector<Tensor>{norm[0],
                                   norm[1],
                                   gate[0],
                                   gate[1],
                                   bias,
                                   engine.apply_one(Sum{}, {x}),
                                   engine.apply_one(SumOfSquares{}, {flat, ranges}),
                                   engine.apply_one(RmsNorm{}, {x, w})};
      },
      "row-wise ops");
}

TEST(Determinism, EmbeddingAndCrossEntropy) {
  expect_thread_independent(
      [](Engine& engine) {
        std::vector<std::int32_t> ids(700);
        for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * i % 50);
        const Tensor id = put(engine, {700}, ids);
        const Tensor hidden = random<float>(engine, {700, 70}, 1), weight = random<float>(engine, {50, 70}, 2);
        const Tensor table = engine.apply_one(EmbeddingBackward{}, {hidden, id, random<float>(engine, {50, 70}, 3)});
        std::vector<Tensor> loss =
            engine.apply(LinearCrossEntropy{.chunk_tokens = 256, .z_loss_multiplier = 1e-3},
                         {hidden, weight, id, put(engine, {700}, std::vector<float>(700, 1)),
                          put(engine, {}, std::vector<float>{0.1F}), random<float>(engine, {50, 70}, 4)});
        loss.push_back(table);
        return loss;
      },
      "embedding and cross-entropy");
}

TEST(Determinism, CrossEntropyOverPartsOfTheVocabulary) {
  expect_thread_independent(
      [](Engine& engine) {
        std::vector<std::int32_t> ids(300);
        for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * i % 90);
        const Tensor targets = put(engine, {300}, ids);
        const Tensor weights = put(engine, {300}, std::vector<float>(300, 1));
        const Tensor first = put(engine, {}, std::vector<std::int32_t>{0});
        const Tensor logits = random<float>(engine, {300, 90}, 1, 4);
        const Tensor statistics = engine.apply_one(LogitStatistics{}, {logits, targets, first});
        std::vector<Tensor> loss = engine.apply(CrossEntropyFromStatistics{.vocabulary = 90, .z_loss_multiplier = 1e-3},
                                                {engine.apply_one(Reshape{{1, 3, 300}}, {statistics}), targets, weights,
                                                 logits, put(engine, {}, std::vector<float>{0.1F}), first});
        loss.push_back(statistics);
        return loss;
      },
      "cross-entropy over parts of the vocabulary");
}

TEST(Linear, ARowDependsOnItselfOnly) {
  constexpr std::int64_t kRows = 1100;
  for (const std::int64_t out : {1, 2, 15, 16, 48, 100, 513, 1024, 4099}) {
    for (const std::int64_t in : {1, 3, 64, 700, 1408, 2048}) {
      if (out * in > 4'000'000) continue;
      CpuDevice one(1), two(2);
      const std::vector<float> x = random_values<float>(kRows * in, 1), w = random_values<float>(out * in, 2);
      const auto linear = [&](CpuEngine& engine, std::int64_t first, std::int64_t rows) {
        const std::vector<float> part(x.begin() + first * in, x.begin() + (first + rows) * in);
        return get<float>(engine,
                          engine.apply_one(Linear{}, {put(engine, {rows, in}, part), put(engine, {out, in}, w)}));
      };
      const std::vector<float> all = linear(*two, 0, kRows);
      const auto expect_rows = [&](CpuEngine& engine, std::int64_t first, std::int64_t rows) {
        const std::vector<float> expected(all.begin() + first * out, all.begin() + (first + rows) * out);
        ASSERT_TRUE(bitwise_equal(linear(engine, first, rows), expected)) << out << "x" << in << ", rows " << rows;
      };
      for (const std::int64_t rows : {1, 2, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 70}) {
        expect_rows(*one, rows % 5, rows);
        expect_rows(*two, rows % 7, rows);
      }
      expect_rows(*one, 0, 700);
      expect_rows(*one, 10, 300);
    }
  }
}

}  // namespace
}  // namespace maxtext::testing
