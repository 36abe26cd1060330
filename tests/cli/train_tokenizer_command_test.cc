// `maxtext train-tokenizer` as users meet it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

using ::testing::HasSubstr;

class TrainTokenizerCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* binary = std::getenv("MAXTEXT_BINARY");
    if (binary == nullptr) FAIL() << "MAXTEXT_BINARY does not name the program (ctest sets it)";
    binary_ = binary;
  }

  /// The exit code; output and error messages go to output().
  int run(const std::string& arguments) const {
    const std::string command =
        "'" + binary_ + "' train-tokenizer " + arguments + " > '" + path("output") + "' 2>&1 < /dev/null";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string output() const { return testing::read_file(path("output")); }
  std::string path(const std::string& name) const { return (directory_.path() / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }

 private:
  testing::TemporaryDirectory directory_;
  std::string binary_;
};

TEST_F(TrainTokenizerCommand, WritesModelAndVocabulary) {
  std::string lines;
  for (int i = 0; i < 300; ++i) {
    lines += "{\"body\": \"the river " + std::to_string(i * i) + " walked towards the mountain\"}\n";
  }
  const std::string text = write("a.jsonl", lines);
  ASSERT_EQ(run(text + " --output " + path("new/folder/tok") + " --vocab-size 300 --jsonl-field body"), 0) << output();
  EXPECT_THAT(output(), HasSubstr("300 tokens"));
  EXPECT_TRUE(std::filesystem::exists(path("new/folder/tok.model")));
  const std::string vocabulary = testing::read_file(path("new/folder/tok.vocab"));
  EXPECT_EQ(std::count(vocabulary.begin(), vocabulary.end(), '\n'), 300);
  EXPECT_THAT(vocabulary, HasSubstr("\xE2\x96\x81the\t"));
}

TEST_F(TrainTokenizerCommand, WrongUsageIsOneLineAndTwo) {
  const auto expect = [&](const std::string& arguments, const std::string& message) {
    EXPECT_EQ(run(arguments), 2);
    EXPECT_THAT(output(), HasSubstr(message));
    const std::string said = output();
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  };
  const std::string text = write("a.txt", "some text\n");
  const std::string out = " --output " + path("tok");
  expect("", "inputs is required");
  expect(text, "--output is required");
  expect("/no/such/file" + out, "inputs: no such file, folder or match: /no/such/file");
  expect(text + out + " --vocab-size 10", "error: --vocab-size: expected at least 260");
  expect(text + out + " --vocab-size 20000", "error: --vocab-size 20000");
  expect(text + out + " --model-type word", "error: --model-type: expected bpe or unigram, got 'word'");
  EXPECT_FALSE(std::filesystem::exists(path("tok.model")));
}

TEST_F(TrainTokenizerCommand, TextThatIsNotUtf8IsNamedByOffset) {
  EXPECT_EQ(run(write("bad.txt", "ok\nab\xFF") + " --output " + path("tok")), 1);
  EXPECT_THAT(output(), HasSubstr("bad.txt: not UTF-8 at byte 5"));
  EXPECT_FALSE(std::filesystem::exists(path("tok.model")));
}

}  // namespace
}  // namespace maxtext
