#include <gtest/gtest.h>

#include <sched.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

#include "mesh/communicator.h"
#include "mesh/device_program.h"

namespace maxtext {
namespace {

using Cores = std::vector<std::vector<int>>;

TEST(SplitCores, EqualContiguousParts) {
  EXPECT_EQ(split_cores({0, 1, 2, 3}, 2), (Cores{{0, 1}, {2, 3}}));
  EXPECT_EQ(split_cores({4, 5, 8, 9, 10, 11, 12}, 3), (Cores{{4, 5}, {8, 9}, {10, 11}}));
  EXPECT_EQ(split_cores({3, 7}, 1), (Cores{{3, 7}}));
}

TEST(SplitCores, MoreDevicesThanCoresShareThem) {
  EXPECT_EQ(split_cores({5, 6}, 4), (Cores{{5}, {5}, {6}, {6}}));
  EXPECT_EQ(split_cores({5, 6}, 3), (Cores{{5}, {5}, {6}}));
}

TEST(SplitCores, NothingToSplitIsAnError) {
  EXPECT_THROW(split_cores({}, 1), Error);
  EXPECT_THROW(split_cores({1}, 0), Error);
}

TEST(SplitCores, OfThisProcessAreAllowedAndCanBePinned) {
  const Cores parts = split_cores(2);
  ASSERT_EQ(parts.size(), 2U);
  for (const std::vector<int>& part : parts) {
    std::thread([&] {
      pin_current_thread(part);
      cpu_set_t set;
      ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
      EXPECT_EQ(CPU_COUNT(&set), static_cast<int>(part.size()));
      for (const int core : part) EXPECT_TRUE(CPU_ISSET(core, &set));
    }).join();
  }
}

TEST(PinCurrentThread, RefusesCoresThatDoNotExist) {
  EXPECT_THROW(pin_current_thread({-1}), Error);
  EXPECT_THROW(pin_current_thread({}), Error);
}

TEST(RunDevices, RunsEachDeviceOnItsOwnThread) {
  std::mutex mutex;
  std::set<int> devices;
  std::set<std::thread::id> threads{std::this_thread::get_id()};
  std::vector<int> wanted{2, 3, 5};
  run_devices(
      wanted,
      [&](int device) {
        const std::lock_guard lock(mutex);
        devices.insert(device);
        threads.insert(std::this_thread::get_id());
      },
      [](int, const std::string&) { FAIL() << "nothing failed"; });
  EXPECT_EQ(devices, std::set<int>(wanted.begin(), wanted.end()));
  EXPECT_GE(threads.size(), 2U);  // ids may be reused after a thread has ended
  EXPECT_TRUE(threads.contains(std::this_thread::get_id()));
}

}  // namespace
}  // namespace maxtext
