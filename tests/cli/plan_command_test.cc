// `maxtext plan` as users and scripts/quickstart meet it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "testing/program.h"

namespace maxtext::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::filesystem::path project_root() {
  return std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
}

/// The expression that scripts/quickstart gives to sed, which turns the line about attention into four words.
std::string quickstart_expression() {
  const std::string script = read_file(project_root() / "scripts" / "quickstart");
  const std::size_t begin = script.find("'s|^attention work");
  const std::size_t end = script.find("|p'", begin);
  if (begin == std::string::npos || end == std::string::npos) return "";
  return script.substr(begin + 1, end + 2 - begin - 1);
}

class PlanCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* binary = std::getenv("MAXTEXT_BINARY");
    if (binary == nullptr) FAIL() << "MAXTEXT_BINARY does not name the program (ctest sets it)";
    binary_ = binary;
  }

  ProgramResult plan(const std::vector<std::string>& arguments, double seconds = 60) const {
    std::vector<std::string> command = {binary_, "plan"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return Program(command).wait(seconds);
  }

  /// What quickstart reads from a plan's output: devices, order, max/mean with reordering and without.
  std::vector<std::string> quickstart_words(const std::string& output) const {
    write_file(path("plan.txt"), output);
    const ProgramResult words = Program({"sed", "-nE", quickstart_expression(), path("plan.txt")}).wait();
    EXPECT_THAT(lines_of(words.output), SizeIs(1)) << output << words.error;
    std::istringstream stream(words.output);
    return {std::istream_iterator<std::string>(stream), {}};
  }

  std::string path(const std::string& name) const { return (directory_.path() / name).string(); }

 private:
  TemporaryDirectory directory_;
  std::string binary_;
};

TEST_F(PlanCommand, TheReportAloneGoesToStandardOutput) {
  const ProgramResult result = plan({"configs/base.yml", "model_name=llama-tiny", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(nlohmann::json::parse(result.output).at("devices"), 1);
}

TEST_F(PlanCommand, ASeventyBillionModelAtLongContextTakesSeconds) {
  const ProgramResult result = plan({"configs/runs/llama3_1_70b_131072.yml", "--json", path("json")}, 20);
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_LT(result.seconds, 20);
  EXPECT_THAT(result.error, IsEmpty());
  for (const char* text : {"devices 256: ", "parameters 70553706496 ", "global_batch_size 32 ", "memory per device",
                           "all_gather", "reduce_scatter", "by MaxText's formula"}) {
    EXPECT_THAT(result.output, HasSubstr(text));
  }
  const std::vector<std::string> words = quickstart_words(result.output);
  ASSERT_THAT(words, SizeIs(4));
  EXPECT_EQ(words[0], "16");
  EXPECT_EQ(words[1], "dual_chunk_swap");
  EXPECT_EQ(words[2], "1.0000");
  EXPECT_NEAR(std::stod(words[3]), 31.0 / 16, 0.001) << "the last of 16 equal parts of a triangle, over their mean";

  const auto report = nlohmann::json::parse(read_file(path("json")));
  EXPECT_EQ(report.at("parameters"), 70553706496);
  EXPECT_EQ(report.at("tokens_per_step"), 32 * 131072);
  EXPECT_EQ(report.at("attention").at("max_over_mean"), 1.0);
  EXPECT_GT(report.at("memory_per_device").at("peak_bytes"), 70553706496 / 256 * 16) << "weights, gradient, moments";
}

TEST_F(PlanCommand, TakesDocumentsFromTheFirstBatch) {
  std::ofstream text(path("text.jsonl"));
  for (int i = 0; i < 50; ++i) text << nlohmann::json{{"text", std::string(20, 'a')}} << "\n";
  text.close();
  const std::vector<std::string> common = {"configs/base.yml",         "model_name=llama-tiny",
                                           "dataset_type=text",        "train_files=" + path("text.jsonl"),
                                           "tokenizer_type=bytes",     "dataset_cache_directory=" + path("cache"),
                                           "max_target_length=256",    "global_batch_size=2",
                                           "ici_context_parallelism=2"};
  std::vector<std::string> packed = common;
  packed.push_back("--first-batch");
  const ProgramResult documents = plan(packed);
  const ProgramResult rows = plan(common);
  ASSERT_EQ(documents.exit_code, 0) << documents.error;
  ASSERT_EQ(rows.exit_code, 0) << rows.error;
  const std::vector<std::string> of_documents = quickstart_words(documents.output);
  const std::vector<std::string> of_rows = quickstart_words(rows.output);
  ASSERT_THAT(of_documents, SizeIs(4));
  ASSERT_THAT(of_rows, SizeIs(4));
  // One document per row: the second half of a triangle of 256 rows, over their mean.
  EXPECT_NEAR(std::stod(of_rows[3]), 24640 / 16448.0, 0.0001);
  EXPECT_LT(std::stod(of_documents[3]), 1.4) << "short documents are nearer to balance as they are";

  packed.push_back("max_target_length=100000");
  const ProgramResult short_of_data = plan(packed);
  EXPECT_EQ(short_of_data.exit_code, 1);
  EXPECT_THAT(short_of_data.error, HasSubstr("maxtext: error: the data has fewer than the 2 rows of a batch"));
}

TEST_F(PlanCommand, SaysAtOnceThatItsReportCannotBeWritten) {
  const ProgramResult result = plan({"configs/runs/llama3_1_70b_131072.yml", "--json", path("missing/folder/json")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_LT(result.seconds, 0.5);
  EXPECT_THAT(result.output, IsEmpty());
  EXPECT_EQ(result.error, "maxtext: error: --json " + path("missing/folder/json") + ": cannot be written\n");
}

}  // namespace
}  // namespace maxtext::testing
