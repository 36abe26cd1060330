// Pages, buckets and the arrays of a chunk: against brute force.
#include "inference/kv_cache.h"

#include <gtest/gtest.h>

#include <set>

#include "inference/prefill_arrays.h"

namespace maxtext {
namespace {

TEST(KvCache, EveryPositionLiesOnOneDeviceAndLocalOnesAreCounted) {
  for (const int devices : {1, 2, 3, 5}) {
    for (const std::int64_t page : {1, 4, 7}) {
      std::vector<std::int64_t> counts(static_cast<std::size_t>(devices), 0);
      for (std::int64_t length = 0; length < 90; ++length) {
        int holders = 0;
        for (int rank = 0; rank < devices; ++rank) {
          EXPECT_EQ(local_positions(length, page, rank, devices), counts[static_cast<std::size_t>(rank)]);
          if (!holds_position(length, page, rank, devices)) continue;
          ++holders;
          ++counts[static_cast<std::size_t>(rank)];
        }
        EXPECT_EQ(holders, 1);
      }
    }
  }
}

TEST(KvCache, CapacitiesArePowersOfTwoUpToTheMost) {
  EXPECT_EQ(cache_capacity(1, 2048), 256);
  EXPECT_EQ(cache_capacity(256, 2048), 256);
  EXPECT_EQ(cache_capacity(257, 2048), 512);
  EXPECT_EQ(cache_capacity(1500, 1600), 1600);
  EXPECT_EQ(cache_capacity(10, 40), 40);
}

TEST(KvCache, BytesAreThoseOfKeysValuesAndScales) {
  ModelShape shape;
  shape.kv_heads = 2;
  shape.head_dim = 8;
  shape.layer_windows = {0, 100, 0};
  CacheOptions options{.sequences = 3, .max_length = 1000, .dtype = DType::float32, .page = 512};
  EXPECT_EQ(cache_bytes(shape, options, 300, 1), 3 * (512 + 100 + 512) * 2 * 2 * 8 * 4);
  options.dtype = DType::int8;
  EXPECT_EQ(cache_bytes(shape, options, 300, 1), 3 * (512 + 100 + 512) * 2 * 2 * (8 + 4));
  options.dtype = DType::bfloat16;
  EXPECT_EQ(cache_bytes(shape, options, 1000, 2), 3 * (1000 + 2 * 100 + 1000) * 2 * 2 * 8 * 2) << "512 and 488";
  options.max_length = 40;
  options.page = 16;
  EXPECT_EQ(cache_bytes(shape, options, 40, 5), 3 * (42 + 5 * 100 + 42) * 2 * 2 * 8 * 2) << "16, 16, 8, and 1 of none";
}

TEST(KvCache, EveryDeviceGetsAPageOfTheLongestSequenceWhereThatHas16PositionsForEach) {
  EXPECT_EQ(page_size(512, 72, 1), 512) << "one device has no reason for less";
  EXPECT_EQ(page_size(512, 2048, 2), 512);
  EXPECT_EQ(page_size(512, 2048, 8), 256);
  EXPECT_EQ(page_size(512, 72, 2), 32);
  EXPECT_EQ(page_size(512, 72, 4), 16);
  EXPECT_EQ(page_size(512, 72, 1024), 16);
  EXPECT_EQ(page_size(5, 72, 4), 5) << "as wanted";
  for (const int devices : {2, 3, 4, 7, 8}) {
    for (std::int64_t length = 16 * devices; length < 700; ++length) {
      const std::int64_t page = page_size(512, length, devices);
      EXPECT_GT(local_positions(length, page, devices - 1, devices), 0) << length << " on " << devices;
    }
  }
}

/// The positions whose keys a query of the chunk sees, found by walking the arrays over a model of the cache: `slots`
/// says which position each slot holds.
std::set<std::int64_t> seen_positions(const PrefillArrays& arrays, std::size_t query,
                                      const std::vector<std::int64_t>& slots) {
  std::set<std::int64_t> seen;
  for (std::int32_t key = arrays.key_begin[query]; key < arrays.key_end[query]; ++key) {
    const auto slot = static_cast<std::size_t>(arrays.slots.at(static_cast<std::size_t>(key)));
    EXPECT_TRUE(seen.insert(slots.at(slot)).second);
  }
  return seen;
}

TEST(PrefillArrays, AChunkSeesItselfAndAllBeforeOnWhicheverDevice) {
  constexpr std::int64_t kPage = 4;
  for (const int devices : {1, 2, 3}) {
    for (std::int64_t first = 0; first < 30; first += kPage) {
      for (const std::int64_t tokens : {1, 3, 4}) {
        std::vector<std::set<std::int64_t>> seen(static_cast<std::size_t>(tokens));
        for (int rank = 0; rank < devices; ++rank) {
          std::vector<std::int64_t> slots(300, -1);
          for (std::int64_t p = 0; p < first + tokens; ++p) {
            if (!holds_position(p, kPage, rank, devices)) continue;
            slots[static_cast<std::size_t>(local_positions(p, kPage, rank, devices))] = p;
          }
          const PrefillArrays arrays = full_prefill_arrays(first, tokens, 256, kPage, rank, devices);
          const bool owned = holds_position(first, kPage, rank, devices);
          EXPECT_EQ(owned, arrays.position >= 0);
          if (owned) {
            EXPECT_EQ(slots[static_cast<std::size_t>(arrays.position)], first);
          } else {
            EXPECT_LT(arrays.position + tokens, 1);  // no row of the chunk is kept
          }
          for (std::size_t q = 0; q < seen.size(); ++q) seen[q].merge(seen_positions(arrays, q, slots));
        }
        for (std::int64_t q = 0; q < tokens; ++q) {
          std::set<std::int64_t> expected;
          for (std::int64_t p = 0; p <= first + q; ++p) expected.insert(p);
          EXPECT_EQ(seen[static_cast<std::size_t>(q)], expected) << devices << " " << first << " " << q;
        }
      }
    }
  }
}

TEST(PrefillArrays, AChunkBehindARingSeesItsWindow) {
  for (const std::int64_t window : {1, 2, 5, 8}) {
    for (std::int64_t first = 0; first < 20; ++first) {
      for (const std::int64_t tokens : {1, 2, 5, 13}) {
        std::vector<std::int64_t> slots(static_cast<std::size_t>(window + tokens), -1);
        for (std::int64_t p = 0; p < first; ++p) slots[static_cast<std::size_t>(p % window)] = p;
        for (std::int64_t t = 0; t < tokens; ++t) slots[static_cast<std::size_t>(window + t)] = first + t;
        const PrefillArrays arrays = ring_prefill_arrays(first, tokens, window);
        EXPECT_EQ(arrays.slots.size(), slots.size());
        EXPECT_EQ(arrays.position, first);
        for (std::int64_t q = 0; q < tokens; ++q) {
          std::set<std::int64_t> expected;
          for (std::int64_t p = std::max<std::int64_t>(0, first + q - window + 1); p <= first + q; ++p)
            expected.insert(p);
          EXPECT_EQ(seen_positions(arrays, static_cast<std::size_t>(q), slots), expected);
        }
      }
    }
  }
}

}  // namespace
}  // namespace maxtext
