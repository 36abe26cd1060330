#include "engines/cpu/workspace.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace maxtext {
namespace {

TEST(Workspace, ReusesBuffersAndGrowsByReplacing) {
  Workspace workspace;
  const std::byte* first = nullptr;
  {
    const Workspace::Lease lease = workspace.take(1000);
    first = lease.data();
    EXPECT_GE(lease.bytes(), 1000);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0U);
    EXPECT_EQ(workspace.bytes_in_use(), lease.bytes());
  }
  EXPECT_EQ(workspace.bytes_in_use(), 0);
  EXPECT_EQ(workspace.take(900).data(), first);
  EXPECT_EQ(workspace.allocations(), 1);
  EXPECT_GE(workspace.take(5 << 20).bytes(), 5 << 20);  // replaces the only buffer, which is free
  EXPECT_EQ(workspace.allocations(), 2);
  EXPECT_EQ(workspace.bytes(), 6 << 20);  // whole huge pages
  EXPECT_EQ(workspace.take(1000).bytes(), 6 << 20);
  EXPECT_EQ(workspace.allocations(), 2);
}

TEST(Workspace, LeasesHeldTogetherAreApart) {
  Workspace workspace;
  const Workspace::Lease a = workspace.take(256);
  const Workspace::Lease b = workspace.take(256);
  std::memset(a.data(), 1, 256);
  std::memset(b.data(), 2, 256);
  EXPECT_EQ(a.data()[255], std::byte{1});
  EXPECT_EQ(workspace.bytes(), 512);
}

TEST(Workspace, ReleaseKeepsWhatIsInUse) {
  Workspace workspace;
  const Workspace::Lease kept = workspace.take(128);
  { const Workspace::Lease other = workspace.take(4096); }
  workspace.release();
  EXPECT_EQ(workspace.bytes(), kept.bytes());
  EXPECT_EQ(workspace.bytes_in_use(), kept.bytes());
  std::memset(kept.data(), 3, 128);
}

TEST(Workspace, CarverAlignsAndCounts) {
  Workspace workspace;
  Carver measure;
  EXPECT_EQ(measure.array<float>(3), nullptr);
  EXPECT_EQ(measure.array<double>(9), nullptr);
  EXPECT_EQ(measure.bytes(), 64 + 128);
  const Workspace::Lease lease = workspace.take(measure.bytes());
  Carver carver(lease.data());
  float* const floats = carver.array<float>(3);
  double* const doubles = carver.array<double>(9);
  EXPECT_EQ(reinterpret_cast<std::byte*>(doubles) - reinterpret_cast<std::byte*>(floats), 64);
}

}  // namespace
}  // namespace maxtext
