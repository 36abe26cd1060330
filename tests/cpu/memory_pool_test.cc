#include "engines/cpu/memory_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "base/error.h"

namespace maxtext {
namespace {

TEST(MemoryPool, BlocksAreAlignedAndApart) {
  MemoryPool pool;
  std::mt19937 random(1);
  std::vector<std::pair<std::shared_ptr<std::byte>, std::size_t>> blocks;
  for (int i = 0; i < 2000; ++i) {
    if (!blocks.empty() && random() % 2 == 0) {
      const std::size_t victim = random() % blocks.size();
      const auto& [block, bytes] = blocks[victim];
      for (std::size_t b = 0; b < bytes; ++b) ASSERT_EQ(block.get()[b], std::byte(bytes % 251));
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(victim));
      continue;
    }
    const std::size_t bytes = random() % 5000;
    blocks.emplace_back(pool.allocate(static_cast<std::int64_t>(bytes)), bytes);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back().first.get()) % 64, 0U);
    std::memset(blocks.back().first.get(), static_cast<int>(bytes % 251), bytes);
  }
  blocks.clear();
  EXPECT_EQ(pool.used_bytes(), 0);
}

TEST(MemoryPool, FreedNeighboursJoin) {
  MemoryPool pool;
  std::vector<std::shared_ptr<std::byte>> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(pool.allocate(1 << 16));
  const std::int64_t touched = pool.touched_bytes();
  EXPECT_EQ(touched, 16 << 16);
  for (const int i : {3, 1, 2, 0, 7, 5, 6, 4, 15, 12, 13, 14, 8, 11, 9, 10})
    blocks[static_cast<std::size_t>(i)].reset();
  const auto whole = pool.allocate(16 << 16);
  EXPECT_EQ(pool.touched_bytes(), touched);
}

TEST(MemoryPool, ABlockOutlivesItsPool) {
  std::shared_ptr<std::byte> block;
  {
    MemoryPool pool;
    block = pool.allocate(100);
  }
  std::memset(block.get(), 1, 100);
}

TEST(MemoryPool, TooLargeARequestIsNamed) {
  MemoryPool pool;
  try {
    pool.allocate(std::int64_t{1} << 60);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("1152921504606846976 bytes"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace maxtext
