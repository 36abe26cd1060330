#include "engines/cpu/memory_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
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

/// In a child process whose addresses are limited: many pools, blocks beyond a first arena, and what does not fit.
int work_within_limited_addresses() {
  const rlimit limit{std::uint64_t{6} << 30U, std::uint64_t{6} << 30U};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
  std::vector<MemoryPool> pools(8);
  std::vector<std::shared_ptr<std::byte>> blocks;
  for (MemoryPool& pool : pools) {
    blocks.push_back(pool.allocate(1 << 20));
    std::memset(blocks.back().get(), 1, 1 << 20);
  }
  MemoryPool& first = pools.front();
  // A sixteenth of the limit is 384 MiB: these do not fit the first arena together.
  constexpr std::int64_t kLarge = std::int64_t{300} << 20;
  for (int i = 0; i < 3; ++i) {
    blocks.push_back(first.allocate(kLarge));
    blocks.back().get()[0] = std::byte{1};
    blocks.back().get()[kLarge - 1] = std::byte{1};
  }
  if (first.used_bytes() != 3 * kLarge + (1 << 20)) return 2;
  const std::int64_t touched = first.touched_bytes();
  blocks.clear();
  for (int i = 0; i < 3; ++i) blocks.push_back(first.allocate(kLarge));
  if (first.touched_bytes() != touched) return 3;
  try {
    first.allocate(std::int64_t{6} << 30U);
    return 4;
  } catch (const Error&) {
  }
  first.allocate(1 << 20);
  return 0;
}

TEST(MemoryPool, ManyPoolsFitLimitedAddresses) {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  if (pages > (std::int64_t{1} << 30) / sysconf(_SC_PAGESIZE)) GTEST_SKIP() << "a sanitizer has taken more addresses";
  const pid_t child = fork();
  if (child == 0) {
    int result = 9;
    try {
      result = work_within_limited_addresses();
    } catch (const Error&) {
    }
    _exit(result);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace maxtext
