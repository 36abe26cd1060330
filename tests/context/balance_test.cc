// How equal the attention work of devices is, on documents and on simulated training data.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <string>

#include "context/attention_area.h"
#include "context/balanced.h"
#include "context/context_plan.h"
#include "context/request_cases.h"

namespace maxtext {
namespace {

using testing::describe;
using testing::fixed_strategies;
using testing::one_document;
using testing::packed_row;

constexpr std::int64_t kLength = 131072;

double imbalance(ContextPlanRequest request, ReorderStrategy strategy) {
  request.reorder = strategy;
  return ContextPlan(std::move(request)).imbalance();
}

TEST(Balance, DualChunkSwapIsPerfectOnOneCausalDocument) {
  for (const int devices : {2, 3, 4, 6, 8, 16}) {
    for (const std::int64_t chunks : {1, 5, 64}) {
      const auto request = one_document(2 * devices * chunks, devices, ReorderStrategy::dual_chunk_swap);
      EXPECT_EQ(ContextPlan(request).imbalance(), 1.0) << describe(request);
    }
  }
}

TEST(Balance, WithoutReorderingTheLastDeviceHasAlmostTwiceTheMean) {
  for (const int devices : {2, 4, 8, 16}) {
    const auto request = one_document(kLength, devices, ReorderStrategy::none);
    EXPECT_NEAR(ContextPlan(request).imbalance(), 2.0 - 1.0 / devices, 1e-4);
  }
}

// Requests of `length` tokens with one simulated packed row each.
std::vector<ContextPlanRequest> simulated(int devices, std::int64_t window, int count, std::int64_t length = kLength) {
  std::vector<ContextPlanRequest> requests;
  for (int seed = 0; seed < count; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed + 1));
    ContextPlanRequest request;
    request.sequence_length = length;
    request.document_lengths = {packed_row(length, random)};
    request.context_parallelism = devices;
    request.attention_types = {{window, 1.0}};
    requests.push_back(request);
  }
  return requests;
}

// The table of docs/context_parallelism.md; run with --gtest_filter=Balance.* to see it.
TEST(Balance, SimulatedPackedData) {
  constexpr int kSeeds = 20;
  for (const int devices : {2, 8, 16}) {
    for (const std::int64_t window : {0, 4096}) {
      std::vector<double> mean(fixed_strategies().size() + 1, 0.0);
      for (const ContextPlanRequest& request : simulated(devices, window, kSeeds)) {
        double least = 1e9;
        for (std::size_t i = 0; i < fixed_strategies().size(); ++i) {
          const double value = imbalance(request, fixed_strategies()[i]);
          mean[i] += value / kSeeds;
          least = std::min(least, value);
          if (fixed_strategies()[i] == ReorderStrategy::balanced) {
            EXPECT_LE(value, 1.02) << describe(request);
          }
        }
        const double automatic = imbalance(request, ReorderStrategy::automatic);
        mean.back() += automatic / kSeeds;
        EXPECT_LE(automatic, least * 1.001) << describe(request);
      }
      fmt::print("cp {:2} window {:4}: none {:.3f} dual_chunk_swap {:.3f} striped {:.4f} balanced {:.4f} auto {:.4f}\n",
                 devices, window, mean[0], mean[1], mean[2], mean[3], mean[4]);
      // What plain swapping loses is the reason for `balanced`.
      if (devices > 2) {
        EXPECT_GT(mean[1], window == 0 ? 1.4 : 1.1);
      }
      EXPECT_LE(mean[3], 1.003);
    }
  }
}

TEST(Balance, OneDocument) {
  for (const int devices : {2, 8, 16}) {
    ContextPlanRequest request = one_document(kLength, devices, ReorderStrategy::automatic);
    std::string line = fmt::format("cp {:2} one document:", devices);
    for (const ReorderStrategy strategy : fixed_strategies()) {
      const double value = imbalance(request, strategy);
      line += fmt::format(" {} {:.4f}", reorder_strategy_name(strategy), value);
      if (strategy != ReorderStrategy::none) {
        EXPECT_LE(value, 1.001);
      }
    }
    fmt::print("{}\n", line);
  }
}

TEST(Balance, SixteenChunksPerDeviceSuffice) {
  for (const int devices : {8, 16}) {
    for (const std::int64_t window : {0, 4096}) {
      for (const ContextPlanRequest& request : simulated(devices, window, 10)) {
        const ChunkGrid grid{kLength / devices, devices, kLength / devices / 16};
        std::vector<double> area;
        for (const auto pairs : chunk_areas(request.document_lengths[0], grid.starts(), window)) {
          area.push_back(static_cast<double>(pairs));
        }
        std::vector<double> load(static_cast<std::size_t>(devices), 0.0);
        deal_balanced(grid, area, load);
        EXPECT_LE(max_over_mean(load), 1.02) << describe(request);
      }
    }
  }
}

TEST(Balance, HoldsForShorterRowsToo) {
  for (const std::int64_t length : {1000, 2048, 8192, 16384, 32768}) {
    for (const int devices : {2, 3, 4, 8}) {
      if (length / devices < 256) continue;
      for (const std::int64_t window : {std::int64_t{0}, length / 32}) {
        for (const ContextPlanRequest& request : simulated(devices, window, 20, length)) {
          EXPECT_LE(imbalance(request, ReorderStrategy::balanced), 1.02) << describe(request);
        }
      }
    }
  }
}

TEST(Balance, MixedAttentionTypesAreWeighedByLayers) {
  for (ContextPlanRequest request : simulated(8, 0, 5)) {
    request.attention_types = {{0, 1.0}, {1024, 5.0}};
    EXPECT_LE(imbalance(request, ReorderStrategy::balanced), 1.02) << describe(request);
  }
}

TEST(Balance, RowsOfABatchEvenEachOtherOut) {
  ContextPlanRequest request;
  request.sequence_length = 64;
  request.context_parallelism = 4;
  // The tokens of a row cost 1, 2 and 3: alone, four devices cannot share that.
  request.document_lengths = {{3}};
  EXPECT_EQ(imbalance(request, ReorderStrategy::balanced), 2.0);
  request.document_lengths.assign(8, {3});
  EXPECT_EQ(imbalance(request, ReorderStrategy::balanced), 1.0);
}

TEST(Balance, AutomaticIsNeverWorseThanTheBest) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 300; ++i) {
    ContextPlanRequest request;
    request.sequence_length = 1 + static_cast<std::int64_t>(random() % 700);
    request.context_parallelism = 1 + static_cast<int>(random() % 9);
    request.attention_types = {{static_cast<std::int64_t>(random() % 3 * 40), 1.0}};
    for (int row = 0; row < 2; ++row) {
      std::vector<std::int64_t> lengths;
      for (std::int64_t left = request.sequence_length; left > 0; left -= lengths.back()) {
        lengths.push_back(1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(left)));
      }
      request.document_lengths.push_back(lengths);
    }
    double least = 1e9;
    for (const ReorderStrategy strategy : fixed_strategies()) least = std::min(least, imbalance(request, strategy));
    EXPECT_LE(imbalance(request, ReorderStrategy::automatic), least * 1.001) << describe(request);
  }
}

ReorderStrategy chosen(ContextPlanRequest request) {
  request.reorder = ReorderStrategy::automatic;
  return ContextPlan(std::move(request)).strategy();
}

TEST(Balance, AutomaticChoosesWhatFitsTheData) {
  using enum ReorderStrategy;
  EXPECT_EQ(chosen(one_document(4096, 1, automatic)), none);
  EXPECT_EQ(chosen(one_document(4096, 4, automatic)), dual_chunk_swap);
  // Padding to a multiple of 2·cp costs less than the tie's tolerance at this length.
  EXPECT_EQ(chosen(one_document(kLength - 1, 8, automatic)), dual_chunk_swap);
  EXPECT_EQ(chosen(simulated(8, 0, 1).front()), balanced);
  EXPECT_EQ(chosen(simulated(8, 4096, 1).front()), balanced);
  // Documents that end with the shards need no reordering.
  ContextPlanRequest aligned = one_document(4096, 4, automatic);
  aligned.document_lengths = {{1024, 1024, 1024, 1024}};
  EXPECT_EQ(chosen(aligned), none);
}

TEST(Balance, ChunksStayCoarseAndAligned) {
  EXPECT_EQ(balanced_chunk_sizes(16384), (std::vector<std::int64_t>{1024, 512, 256}));
  EXPECT_EQ(balanced_chunk_sizes(4096), (std::vector<std::int64_t>{256, 128, 64}));
  EXPECT_EQ(balanced_chunk_sizes(1024), (std::vector<std::int64_t>{64}));
  EXPECT_EQ(balanced_chunk_sizes(500), (std::vector<std::int64_t>{16}));
  EXPECT_EQ(balanced_chunk_sizes(64), (std::vector<std::int64_t>{4, 2, 1}));
  EXPECT_EQ(balanced_chunk_sizes(2), (std::vector<std::int64_t>{1}));
}

// The processor time, so that a busy machine does not fail the test.
double seconds_to_plan(const ContextPlanRequest& request) {
  const std::clock_t start = std::clock();
  const ContextPlan plan(request);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  fmt::print("{} -> {}, max/mean {:.4f}, {:.3f} s\n", reorder_strategy_name(request.reorder),
             reorder_strategy_name(plan.strategy()), plan.imbalance(), seconds);
  return seconds;
}

TEST(Balance, AMillionTokensOn256DevicesAreDealtWithinASecond) {
  ContextPlanRequest request;
  request.sequence_length = 1 << 20;
  request.context_parallelism = 256;
  request.attention_types = {{0, 1.0}, {4096, 5.0}};
  std::mt19937_64 random(3);
  // Packed documents, one document, a million documents, and a long one that no strategy can balance perfectly.
  for (const auto& lengths : {packed_row(1 << 20, random), std::vector<std::int64_t>{1 << 20},
                              std::vector<std::int64_t>(1 << 20, 1), std::vector<std::int64_t>{5000}}) {
    request.document_lengths = {lengths};
    for (const ReorderStrategy strategy : {ReorderStrategy::automatic, ReorderStrategy::balanced}) {
      request.reorder = strategy;
      EXPECT_LT(seconds_to_plan(request), 1.0);
    }
  }
}

}  // namespace
}  // namespace maxtext
