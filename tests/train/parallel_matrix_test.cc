// Loss and every gradient on a mesh equal those of one device; the forward is bitwise the same for every context
// parallelism. Every combination of the matrix is small, so that thousands of them run in seconds.
#include <gtest/gtest.h>

#include <cstring>

#include "mesh/delayed_communicator.h"
#include "mesh/thread_transport.h"
#include "testing/compare.h"
#include "testing_model/model_run.h"

namespace maxtext::testing {
namespace {

constexpr double kTolerance = 1e-5;

const std::vector<ReorderStrategy> kStrategies = {ReorderStrategy::none, ReorderStrategy::dual_chunk_swap,
                                                  ReorderStrategy::striped, ReorderStrategy::balanced,
                                                  ReorderStrategy::automatic};

void expect_equal(const ModelRunResult& actual, const ModelRunResult& expected, const std::string& what) {
  EXPECT_NEAR(actual.loss, expected.loss, kTolerance * std::abs(expected.loss)) << what;
  EXPECT_TRUE(bitwise_equal(actual.nll, expected.nll)) << what;
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size()) << what;
  for (const auto& [name, values] : expected.gradients) {
    EXPECT_LE(relative_difference(actual.gradients.at(name), values), kTolerance) << name << " " << what;
  }
}

struct Heads {
  const char* name;
  std::int64_t query_heads;
  std::int64_t kv_heads;
};
const std::vector<Heads> kHeads = {{"mha", 4, 4}, {"gqa", 6, 2}, {"mqa", 5, 1}};

/// Document layouts for rows of `length`, with document borders on every shard border of `cp` devices among them.
std::vector<std::vector<std::vector<std::int64_t>>> layouts(std::int64_t length, int cp) {
  std::vector<std::vector<std::vector<std::int64_t>>> all;
  all.push_back({{length}, {length}});
  if (length < 8) return all;
  // Packed: length one, zero length, and padding at the tail.
  all.push_back({{1, 0, length / 2, 1, length / 4}, {length / 3, length / 3, 1}});
  std::vector<std::int64_t> on_borders;
  std::int64_t done = 0;
  for (int i = 1; i <= 2 * cp; ++i) {
    const std::int64_t border = i * length / (2 * cp);
    on_borders.push_back(border - done);
    done = border;
  }
  all.push_back({on_borders, {length}});
  return all;
}

class Matrix : public ::testing::TestWithParam<int> {};

TEST_P(Matrix, LossAndGradientsEqualOneDevice) {
  const int cp = GetParam();
  for (const Heads& heads : kHeads) {
    const std::int64_t length = 2 * cp * 6 + 1;
    const std::int64_t chunk = (length + 2 * cp - 1) / (2 * cp);
    for (const std::int64_t window : {std::int64_t{0}, std::int64_t{1}, chunk - 1, chunk, chunk + 1, length + 5}) {
      const ModelShape shape = small_shape(heads.query_heads, heads.kv_heads, {0, window});
      for (const auto& documents : layouts(length, cp)) {
        const RowBatch batch = random_batch(length, documents, shape.vocab_size, 3);
        const ModelRunResult expected = run_model(shape, batch, {});
        for (const ReorderStrategy strategy : kStrategies) {
          ModelRunOptions options;
          options.mesh = {1, 1, cp, 1};
          options.reorder = strategy;
          expect_equal(run_model(shape, batch, options), expected,
                       std::string(heads.name) + " window " + std::to_string(window) + " " +
                           std::string(reorder_strategy_name(strategy)));
          if (HasFailure()) return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ContextParallelism, Matrix, ::testing::Values(1, 2, 3, 4, 6, 8),
                         [](const auto& instance) { return "cp" + std::to_string(instance.param); });

TEST(ParallelMatrix, WithFsdpAndDataParallelism) {
  const ModelShape shape = small_shape(6, 2, {0, 5});
  const RowBatch batch = random_batch(29, {{29}, {10, 1, 12}, {1, 28}, {7, 7, 7}}, shape.vocab_size, 11);
  const ModelRunResult expected = run_model(shape, batch, {});
  for (const std::array<int, 4> mesh : {std::array<int, 4>{1, 2, 1, 1},
                                        {2, 1, 1, 1},
                                        {1, 2, 2, 1},
                                        {2, 1, 2, 1},
                                        {2, 2, 1, 1},
                                        {1, 2, 3, 1},
                                        {2, 2, 2, 1},
                                        {1, 4, 2, 1},
                                        {4, 1, 1, 1}}) {
    for (const ReorderStrategy strategy : {ReorderStrategy::none, ReorderStrategy::automatic}) {
      for (const std::string remat : {"none", "full"}) {
        ModelRunOptions options;
        options.mesh = mesh;
        options.reorder = strategy;
        options.remat = remat;
        expect_equal(run_model(shape, batch, options), expected,
                     "data " + std::to_string(mesh[0]) + " fsdp " + std::to_string(mesh[1]) + " context " +
                         std::to_string(mesh[2]) + " remat " + remat);
      }
    }
  }
}

/// Soft caps, norms on both sides, a scaled and tied embedding, a rotary embedding per attention type.
TEST(ParallelMatrix, GemmasEqualOneDevice) {
  for (const ModelShape& shape : {small_gemma2({5, 0, 5}), small_gemma3({4, 0})}) {
    const RowBatch batch = random_batch(29, {{29}, {10, 1, 12}, {1, 28}, {7, 7, 7}}, shape.vocab_size, 47);
    const ModelRunResult expected = run_model(shape, batch, {});
    for (const std::array<int, 4> mesh :
         {std::array<int, 4>{1, 1, 2, 1}, {1, 1, 3, 1}, {1, 1, 4, 1}, {1, 2, 2, 1}, {2, 1, 2, 1}}) {
      for (const ReorderStrategy strategy : {ReorderStrategy::dual_chunk_swap, ReorderStrategy::balanced}) {
        for (const std::string remat : {"none", "full"}) {
          ModelRunOptions options;
          options.mesh = mesh;
          options.reorder = strategy;
          options.remat = remat;
          expect_equal(run_model(shape, batch, options), expected,
                       shape.family + " data " + std::to_string(mesh[0]) + " fsdp " + std::to_string(mesh[1]) +
                           " context " + std::to_string(mesh[2]) + " remat " + remat);
        }
      }
    }
  }
}

/// Devices have different numbers of targets; a z-loss divided by the local count would not add up.
TEST(ParallelMatrix, ZLossEqualsThatOfOneDevice) {
  const ModelShape shape = small_shape(6, 2, {0, 5});
  const RowBatch batch = random_batch(29, {{29}, {3, 1}, {1, 20}, {2}}, shape.vocab_size, 23);
  ModelRunOptions options;
  const double without = run_model(shape, batch, options).loss;
  options.z_loss_multiplier = 0.01;
  const ModelRunResult expected = run_model(shape, batch, options);
  EXPECT_GT(expected.loss, without * 1.01) << "z-loss is there";
  for (const std::array<int, 4> mesh :
       {std::array<int, 4>{1, 1, 2, 1}, {1, 2, 2, 1}, {2, 1, 1, 1}, {1, 1, 3, 1}, {2, 2, 1, 1}}) {
    options.mesh = mesh;
    expect_equal(
        run_model(shape, batch, options), expected,
        "data " + std::to_string(mesh[0]) + " fsdp " + std::to_string(mesh[1]) + " context " + std::to_string(mesh[2]));
  }
}

TEST(ParallelMatrix, EveryLength) {
  for (const int cp : {2, 3, 8}) {
    for (const std::int64_t length :
         {std::int64_t{1}, std::int64_t{cp - 1}, std::int64_t{2 * cp + 1}, std::int64_t{127}, std::int64_t{1000}}) {
      const ModelShape shape = small_shape(4, 2, {0});
      const RowBatch batch = random_batch(length, {{length}}, shape.vocab_size, 5);
      const ModelRunResult expected = run_model(shape, batch, {});
      for (const ReorderStrategy strategy : kStrategies) {
        ModelRunOptions options;
        options.mesh = {1, 1, cp, 1};
        options.reorder = strategy;
        expect_equal(run_model(shape, batch, options), expected,
                     "length " + std::to_string(length) + " cp " + std::to_string(cp) + " " +
                         std::string(reorder_strategy_name(strategy)));
      }
    }
  }
}

TEST(ParallelMatrix, MicroBatchesEqualOneBatch) {
  const ModelShape shape = small_shape(4, 2, {0, 4});
  const RowBatch batch = random_batch(24, {{24}, {3, 20}, {1}, {12, 12}}, shape.vocab_size, 13);
  const ModelRunResult expected = run_model(shape, batch, {});
  for (const int micro_batches : {2, 4}) {
    ModelRunOptions options;
    options.micro_batches = micro_batches;
    expect_equal(run_model(shape, batch, options), expected, std::to_string(micro_batches));
  }
}

TEST(ParallelMatrix, RepeatedRunsAndThreadsAreBitwiseEqual) {
  const ModelShape shape = small_shape(6, 2, {0, 9});
  const RowBatch batch = random_batch(70, {{70}, {30, 1, 20}}, shape.vocab_size, 17);
  for (const int cp : {1, 2}) {
    ModelRunOptions options;
    options.mesh = {1, 1, cp, 1};
    const ModelRunResult first = run_model(shape, batch, options);
    options.threads = 2;
    const ModelRunResult second = run_model(shape, batch, options);
    EXPECT_EQ(first.loss, second.loss);
    EXPECT_EQ(first.gradients, second.gradients) << "cp " << cp;
  }
}

TEST(ParallelMatrix, RandomDelaysChangeNothing) {
  const ModelShape shape = small_shape(6, 2, {0, 9});
  const RowBatch batch = random_batch(40, {{40}, {30, 1}}, shape.vocab_size, 19);
  ModelRunOptions options;
  options.mesh = {1, 2, 2, 1};
  const ModelRunResult expected = run_model(shape, batch, options);
  for (const std::uint64_t seed : {1, 2, 3}) {
    ThreadTransport transport{Mesh(options.mesh)};
    const ModelRunResult delayed = run_model(shape, batch, options, transport, [&](auto inner) {
      return delayed_communicator(std::move(inner),
                                  {.delay = std::chrono::microseconds(2000), .random = true, .seed = seed});
    });
    EXPECT_EQ(delayed.loss, expected.loss);
    EXPECT_EQ(delayed.nll, expected.nll);
    EXPECT_EQ(delayed.gradients, expected.gradients);
  }
}

}  // namespace
}  // namespace maxtext::testing
