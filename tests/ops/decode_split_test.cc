// The plan of a decode step against brute force, and what it promises.
#include "ops/decode_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "base/error.h"

namespace maxtext {
namespace {

using ::testing::HasSubstr;

std::vector<DecodeRange> ranges_of(const std::vector<std::int64_t>& lengths) {
  std::vector<DecodeRange> ranges;
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) ranges.push_back({begin, begin + length}), begin += 7;
  return ranges;
}

/// Every range of every head is covered once, in order, by chunks that are long enough or whole.
void expect_cover(const std::vector<DecodeChunk>& chunks, const std::vector<DecodeRange>& ranges, std::int64_t kv_heads,
                  int workers, std::int64_t shortest) {
  auto chunk = chunks.begin();
  for (std::size_t b = 0; b < ranges.size(); ++b) {
    for (std::int64_t h = 0; h < kv_heads; ++h) {
      for (std::int64_t at = ranges[b].begin; at < ranges[b].end; ++chunk) {
        ASSERT_NE(chunk, chunks.end());
        EXPECT_EQ(chunk->sequence, static_cast<std::int64_t>(b));
        EXPECT_EQ(chunk->kv_head, h);
        EXPECT_EQ(chunk->begin, at);
        ASSERT_GT(chunk->end, at);
        EXPECT_TRUE(chunk->length() >= std::min(shortest, ranges[b].end - ranges[b].begin)) << chunk->length();
        EXPECT_TRUE(chunk->worker >= 0 && chunk->worker < workers);
        at = chunk->end;
      }
    }
  }
  EXPECT_EQ(chunk, chunks.end());
}

/// The least maximum over all ways to deal `parts` to `workers`, if it is below `best`, else `best`.
std::int64_t best_deal(std::vector<std::int64_t> parts, int workers, std::int64_t best) {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(workers), 0);
  std::ranges::sort(parts, std::greater());
  const std::function<void(std::size_t, std::int64_t)> deal = [&](std::size_t i, std::int64_t longest) {
    if (longest >= best) return;
    if (i == parts.size()) {
      best = longest;
      return;
    }
    for (std::int64_t& load : loads) {
      const bool was_empty = load == 0;
      load += parts[i];
      deal(i + 1, std::max(longest, load));
      load -= parts[i];
      if (was_empty) return;  // one empty worker is as good as another
    }
  };
  deal(0, 0);
  return best;
}

/// The least maximum over all split counts: each head of sequence b cut into s_b nearly equal parts of at least 128.
std::int64_t brute_force(const std::vector<std::int64_t>& lengths, std::int64_t kv_heads, int workers) {
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> parts;
  const std::function<void(std::size_t)> choose = [&](std::size_t b) {
    if (b == lengths.size()) {
      best = best_deal(parts, workers, best);
      return;
    }
    const std::int64_t most = std::clamp<std::int64_t>(lengths[b] / kShortestDecodeChunk, 1, workers);
    for (std::int64_t splits = 1; splits <= most; ++splits) {
      const std::size_t before = parts.size();
      for (std::int64_t h = 0; h < kv_heads; ++h) {
        for (std::int64_t i = 0; i < splits; ++i) {
          parts.push_back(lengths[b] * (i + 1) / splits - lengths[b] * i / splits);
        }
      }
      choose(b + 1);
      parts.resize(before);
    }
  };
  choose(0);
  return best;
}

TEST(DecodeSplit, NoSplitCountIsBetter) {
  std::mt19937 generator(1);
  constexpr int trials = 300;
  int as_good = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const int workers = 1 + static_cast<int>(generator() % 4);
    const std::int64_t kv_heads = 1 + generator() % 2;
    std::vector<std::int64_t> lengths;
    const std::size_t batch = 1 + generator() % (kv_heads == 1 ? 4 : 2);
    // Of all orders of magnitude: dealt whole, barely divisible, long.
    for (std::size_t b = 0; b < batch; ++b) lengths.push_back(generator() % (trial % 2 == 0 ? 500 : 3000));
    const auto ranges = ranges_of(lengths);
    const auto chunks = plan_decode_split(ranges, kv_heads, workers);
    expect_cover(chunks, ranges, kv_heads, workers, kShortestDecodeChunk);
    const std::int64_t best = brute_force(lengths, kv_heads, workers);
    if (longest_worker(chunks, workers) <= best) ++as_good;
    EXPECT_LE(longest_worker(chunks, workers), best + kShortestDecodeChunk)
        << ::testing::PrintToString(lengths) << " on " << kv_heads << " heads for " << workers << " workers";
  }
  EXPECT_GE(as_good, 0.85 * trials);
}

TEST(DecodeSplit, LongSequencesAreDealtEvenly) {
  std::mt19937 generator(2);
  for (int trial = 0; trial < 200; ++trial) {
    const int workers = 1 + static_cast<int>(generator() % 16);
    std::vector<std::int64_t> lengths;
    std::int64_t total = 0;
    const std::size_t batch = 1 + generator() % 6;
    for (std::size_t b = 0; b < batch; ++b) {
      lengths.push_back(5000 + generator() % 50000);
      total += 3 * lengths.back();
    }
    const auto chunks = plan_decode_split(ranges_of(lengths), 3, workers);
    EXPECT_LE(longest_worker(chunks, workers), (total + workers - 1) / workers + kShortestDecodeChunk);
    EXPECT_LE(chunks.size(), 3 * lengths.size() + static_cast<std::size_t>(workers));
  }
}

TEST(DecodeSplit, OneLongSequenceKeepsEveryWorkerBusy) {
  for (const int workers : {2, 3, 7, 16}) {
    const auto ranges = ranges_of({100000});
    const auto chunks = plan_decode_split(ranges, 1, workers);
    EXPECT_EQ(chunks.size(), static_cast<std::size_t>(workers));
    EXPECT_EQ(longest_worker(chunks, workers), (100000 + workers - 1) / workers);
  }
}

TEST(DecodeSplit, UnevenBatchesAreEven) {
  const auto ranges = ranges_of({20000, 100, 0, 3, 800, 7000});
  for (const int workers : {2, 4, 8}) {
    const auto chunks = plan_decode_split(ranges, 4, workers);
    expect_cover(chunks, ranges, 4, workers, kShortestDecodeChunk);
    const std::int64_t total = 4 * (20000 + 100 + 3 + 800 + 7000);
    EXPECT_LE(longest_worker(chunks, workers), total / workers + kShortestDecodeChunk);
    EXPECT_LE(chunks.size(), 5U * 4U + static_cast<unsigned>(workers));
  }
}

TEST(DecodeSplit, HeadsThatDivideAreNotCut) {
  EXPECT_EQ(plan_decode_split(ranges_of({5000}), 8, 2).size(), 8U);
  EXPECT_EQ(plan_decode_split(ranges_of({5000, 5000}), 4, 8).size(), 8U);
}

TEST(DecodeSplit, ShortestChunkIsCutNoFurther) {
  EXPECT_EQ(plan_decode_split(ranges_of({2 * kShortestDecodeChunk - 1}), 1, 8).size(), 1U);
  EXPECT_EQ(plan_decode_split(ranges_of({2 * kShortestDecodeChunk}), 1, 8).size(), 2U);
}

TEST(DecodeSplit, NothingToReadIsAnEmptyPlan) {
  EXPECT_TRUE(plan_decode_split(ranges_of({0, -5}), 8, 2).empty());
  EXPECT_TRUE(plan_decode_split({}, 8, 2).empty());
  EXPECT_TRUE(plan_fixed_chunks(ranges_of({0}), 8, 2, 64).empty());
}

TEST(DecodeSplit, FixedChunksDependOnTheirSequenceOnly) {
  const std::vector<DecodeRange> ranges{{5, 130}, {64, 256}, {0, 1}};
  const auto cuts = [](const std::vector<DecodeChunk>& chunks, std::int64_t sequence) {
    std::vector<std::pair<std::int64_t, std::int64_t>> list;
    for (const DecodeChunk& chunk : chunks) {
      if (chunk.sequence == sequence) list.emplace_back(chunk.begin, chunk.end);
    }
    return list;
  };
  for (const int workers : {1, 2, 5}) {
    const auto chunks = plan_fixed_chunks(ranges, 1, workers, 64);
    expect_cover(chunks, ranges, 1, workers, 1);
    EXPECT_EQ(cuts(chunks, 0), (std::vector<std::pair<std::int64_t, std::int64_t>>{{5, 64}, {64, 128}, {128, 130}}));
    EXPECT_EQ(cuts(chunks, 1), (std::vector<std::pair<std::int64_t, std::int64_t>>{{64, 128}, {128, 192}, {192, 256}}));
  }
  const auto many = plan_fixed_chunks(ranges_of({64 * 100}), 2, 4, 64);
  EXPECT_EQ(longest_worker(many, 4), 64 * 50);
}

TEST(DecodeSplit, RefusesNoWorkersHeadsOrChunks) {
  const auto message = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message([] { plan_decode_split({}, 1, 0); }), HasSubstr("worker"));
  EXPECT_THAT(message([] { plan_decode_split({}, 0, 1); }), HasSubstr("KV head"));
  EXPECT_THAT(message([] { plan_fixed_chunks({}, 1, 1, 0); }), HasSubstr("chunk"));
}

}  // namespace
}  // namespace maxtext
