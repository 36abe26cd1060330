#include "train/memory_use.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

namespace maxtext {
namespace {

TEST(MemoryUse, PeakSeesTouchedPagesAndStaysAfterTheyAreGone) {
  constexpr std::int64_t kBytes = 64 << 20;
  const std::int64_t before = resident_bytes();
  ASSERT_GT(before, 0);
  void* block = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, kBytes);
  const std::int64_t during = resident_bytes();
  munmap(block, kBytes);
  constexpr std::int64_t kSlack = 4 << 20;  // the kernel batches its counters per thread
  EXPECT_GE(during, before + kBytes - kSlack);
  EXPECT_GE(peak_resident_bytes(), before + kBytes - kSlack);
  EXPECT_LT(resident_bytes(), during - kBytes / 2);
}

}  // namespace
}  // namespace maxtext
