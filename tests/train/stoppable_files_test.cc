#include "train/stoppable_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "testing/temporary_directory.h"

namespace maxtext::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kText = "0123456789abcdef";
const std::span<const std::byte> kBytes = std::as_bytes(std::span(kText, 16));

TEST(StoppableFileLayer, PassesEverythingOnUntilItIsStopped) {
  const TemporaryDirectory directory;
  StoppableFileLayer files(std::make_shared<PosixFileLayer>());
  files.create_directory(directory.path() / "a");
  write_whole_file(files, directory.path() / "a" / "file", kBytes);
  files.rename(directory.path() / "a", directory.path() / "b");
  files.sync_directory(directory.path());
  EXPECT_EQ(read_file(directory.path() / "b" / "file"), kText);
  const std::unique_ptr<OutputFile> begun = files.create_file(directory.path() / "begun");
  begun->write(kBytes);
  files.stop();
  EXPECT_THAT([&] { begun->write(kBytes); }, ThrowsMessage<Error>(HasSubstr("given up")));
  EXPECT_THAT([&] { begun->finish(); }, ThrowsMessage<Error>(HasSubstr("given up")));
  files.remove_tree(directory.path() / "b");  // cleaning up still works
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "b"));
}

}  // namespace
}  // namespace maxtext::testing
