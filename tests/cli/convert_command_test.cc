// `maxtext convert` there and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tensor/safetensors.h"
#include "testing/fixtures.h"
#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

using ::testing::HasSubstr;

class ConvertCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* binary = std::getenv("MAXTEXT_BINARY");
    if (binary == nullptr) FAIL() << "MAXTEXT_BINARY does not name the program (ctest sets it)";
    binary_ = binary;
  }

  /// The exit code; output and error messages go to output().
  int convert(const std::string& arguments) const {
    const std::string command =
        "'" + binary_ + "' convert " + arguments + " > '" + path("output") + "' 2>&1 < /dev/null";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string output() const { return testing::read_file(path("output")); }
  std::string path(const std::string& name) const { return (directory_.path() / name).string(); }

 private:
  testing::TemporaryDirectory directory_;
  std::string binary_;
};

TEST_F(ConvertCommand, ThereAndBackKeepsEveryBit) {
  for (const auto& model : testing::find_fixtures("hf/models/llama*")) {
    if (!std::filesystem::exists(model / "config.json")) continue;
    const std::string name = model.filename().string();
    ASSERT_EQ(convert(model.string() + " " + path(name)), 0) << output();
    EXPECT_THAT(output(), HasSubstr("load_parameters_path=" + path(name)));
    ASSERT_EQ(convert(path(name) + " " + path(name + "-back") + " --max-shard-bytes 30000"), 0) << output();
    const SafetensorsSet before(model);
    const SafetensorsSet after(path(name + "-back"));
    ASSERT_EQ(after.names(), before.names());
    for (const std::string& tensor : before.names()) {
      EXPECT_EQ(after.at(tensor).spec, before.at(tensor).spec) << tensor;
      EXPECT_TRUE(std::ranges::equal(after.at(tensor).bytes, before.at(tensor).bytes)) << name << ' ' << tensor;
    }
  }
}

TEST_F(ConvertCommand, ChangesTheDtype) {
  const auto model = testing::find_fixtures("hf/models/llama").front();
  ASSERT_EQ(convert(model.string() + " " + path("half") + " --to huggingface --dtype bfloat16"), 0) << output();
  const SafetensorsSet half(path("half"));
  for (const std::string& name : half.names()) EXPECT_EQ(half.at(name).spec.dtype, DType::bfloat16);
}

TEST_F(ConvertCommand, NeverWritesIntoARunThatIsThere) {
  const std::string model = testing::find_fixtures("hf/models/llama").front().string();
  ASSERT_EQ(convert(model + " " + path("run")), 0) << output();
  const std::string manifest = testing::read_file(path("run/checkpoints/0/items/manifest.json"));
  EXPECT_EQ(convert(model + " " + path("run")), 2);
  EXPECT_THAT(output(), HasSubstr("TO '" + path("run") + "' is a run with checkpoints, the newest of step 0"));
  EXPECT_EQ(testing::read_file(path("run/checkpoints/0/items/manifest.json")), manifest);
}

TEST_F(ConvertCommand, LeavesARunAloneThatIsTrained) {
  const std::string model = testing::find_fixtures("hf/models/llama").front().string();
  std::filesystem::create_directory(path("run"));
  testing::write_file(path("run/.lock"), "");
  std::FILE* lock = std::fopen(path("run/.lock").c_str(), "r+");
  ASSERT_EQ(flock(fileno(lock), LOCK_EX), 0);
  EXPECT_EQ(convert(model + " " + path("run")), 1);
  EXPECT_THAT(output(), HasSubstr("another process is training this run"));
  std::fclose(lock);
  EXPECT_EQ(convert(model + " " + path("run")), 0) << output();
}

TEST_F(ConvertCommand, WrongUsageExitsWith2) {
  const std::string model = testing::find_fixtures("hf/models/llama").front().string();
  EXPECT_EQ(convert(path("nothing") + " " + path("out")), 2);
  EXPECT_THAT(output(), HasSubstr("FROM '" + path("nothing") + "' does not exist"));
  EXPECT_EQ(convert(model), 2);
  EXPECT_EQ(convert(model + " " + path("out") + " --dtype int32"), 2);
  EXPECT_THAT(output(), HasSubstr("int32"));
  EXPECT_EQ(convert(model + " " + model + " --to huggingface"), 2);
  EXPECT_THAT(output(), HasSubstr("exists already"));
  EXPECT_EQ(convert(model + " " + path("out") + " --dtype bfloat16"), 2);
  EXPECT_THAT(output(), HasSubstr("keeps the dtype of its source"));
}

}  // namespace
}  // namespace maxtext
