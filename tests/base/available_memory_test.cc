// What the machine and the control groups leave, with files made for it.
#include "base/available_memory.h"

#include <gtest/gtest.h>

#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;

class AvailableMemory : public ::testing::Test {
 protected:
  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root() / file).parent_path());
    testing::write_file(root() / file, text);
  }
  void machine_has(std::int64_t kibibytes) const {
    write("proc/meminfo", "MemTotal:  900 kB\nMemFree:  5 kB\nMemAvailable:  " + std::to_string(kibibytes) + " kB\n");
  }
  const fs::path& root() const { return directory_.path(); }

 private:
  testing::TemporaryDirectory directory_;
};

TEST_F(AvailableMemory, IsThatOfTheMachineWithoutControlGroups) {
  EXPECT_EQ(available_memory(root()), std::nullopt) << "nothing can be read";
  machine_has(700);
  EXPECT_EQ(available_memory(root()), 700 * 1024);
}

TEST_F(AvailableMemory, AControlGroupsLimitCountsLessItsAnonymousPages) {
  machine_has(700);
  write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(available_memory(root()), 700 * 1024);
  write("sys/fs/cgroup/memory.max", "5000\n");
  write("sys/fs/cgroup/memory.stat", "file 4000\nanon 1500\nkernel 7\n");
  EXPECT_EQ(available_memory(root()), 3500) << "pages of files give way";
  write("sys/fs/cgroup/memory.max", "1000\n");
  EXPECT_EQ(available_memory(root()), 0);
  machine_has(0);
  write("sys/fs/cgroup/memory.max", "5000\n");
  EXPECT_EQ(available_memory(root()), 0);
}

TEST_F(AvailableMemory, TheTightestOfNestedGroupsCounts) {
  machine_has(700);
  write("proc/self/cgroup", "1:cpu:/other\n0::/user.slice/run\n");
  write("sys/fs/cgroup/user.slice/memory.max", "9000\n");
  EXPECT_EQ(available_memory(root()), 9000);
  write("sys/fs/cgroup/user.slice/run/memory.max", "2000\n");
  write("sys/fs/cgroup/user.slice/run/memory.stat", "anon 500\n");
  EXPECT_EQ(available_memory(root()), 1500);
  write("sys/fs/cgroup/other/memory.max", "1\n");
  EXPECT_EQ(available_memory(root()), 1500);
}

TEST_F(AvailableMemory, OfThisMachineIsThere) { EXPECT_GT(available_memory().value_or(0), 0); }

}  // namespace
}  // namespace maxtext
