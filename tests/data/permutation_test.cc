#include "data/permutation.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace maxtext {
namespace {

TEST(Permutation, VisitsEverythingOnce) {
  for (std::int64_t size = 1; size <= 300; ++size) {
    for (std::uint64_t key : {0ULL, 1ULL, 99ULL}) {
      const Permutation order(size, key);
      std::vector<int> seen(static_cast<std::size_t>(size));
      for (std::int64_t i = 0; i < size; ++i) {
        const std::int64_t element = order(i);
        ASSERT_GE(element, 0);
        ASSERT_LT(element, size);
        ++seen[static_cast<std::size_t>(element)];
      }
      for (const int count : seen) ASSERT_EQ(count, 1) << "size " << size << " key " << key;
    }
  }
}

TEST(Permutation, KeysGiveOtherOrdersThatLookRandom) {
  constexpr std::int64_t kSize = 10000;
  const Permutation first(kSize, 1);
  const Permutation second(kSize, 2);
  std::int64_t equal = 0;
  std::int64_t fixed = 0;
  std::int64_t ascents = 0;
  for (std::int64_t i = 0; i < kSize; ++i) {
    equal += first(i) == second(i);
    fixed += first(i) == i;
    ascents += i > 0 && first(i) > first(i - 1);
  }
  // One expected in each of the first two; the number of ascents has mean 5000 and standard deviation 29.
  EXPECT_LT(equal, 10);
  EXPECT_LT(fixed, 10);
  EXPECT_NEAR(static_cast<double>(ascents), kSize / 2.0, 150);
}

TEST(Permutation, LargeSizesStayInRange) {
  const std::int64_t size = (std::int64_t{1} << 40) + 12345;
  const Permutation order(size, 7);
  for (std::int64_t i = 0; i < 1000; ++i) {
    EXPECT_GE(order(i), 0);
    EXPECT_LT(order(i), size);
  }
}

TEST(MixKeys, DependsOnEveryBitOfBoth) {
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t flip = std::uint64_t{1} << bit;
    EXPECT_NE(mix_keys(5, 6), mix_keys(5 ^ flip, 6));
    EXPECT_NE(mix_keys(5, 6), mix_keys(5, 6 ^ flip));
  }
  EXPECT_NE(mix_keys(5, 6), mix_keys(6, 5));
}

}  // namespace
}  // namespace maxtext
