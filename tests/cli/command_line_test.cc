// The program as users meet it: output, exit code, and one line for what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace maxtext {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct Result {
  int exit_code = -1;
  std::string output;
  std::string error;
};

std::string project_root() { return fs::absolute(__FILE__).parent_path().parent_path().parent_path().string(); }

std::string read_and_remove(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  fs::remove(path);
  return text;
}

/// Runs a shell command in the project's root folder.
Result run_shell(const std::string& command) {
  std::string folder = (fs::temp_directory_path() / "maxtext_cli_XXXXXX").string();
  ::mkdtemp(folder.data());
  const std::string full =
      "cd '" + project_root() + "' && " + command + " > '" + folder + "/out' 2> '" + folder + "/err' < /dev/null";
  const int status = std::system(full.c_str());
  Result result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.output = read_and_remove(folder + "/out");
  result.error = read_and_remove(folder + "/err");
  fs::remove(folder);
  return result;
}

class CommandLine : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* binary = std::getenv("MAXTEXT_BINARY");
    if (binary == nullptr) FAIL() << "MAXTEXT_BINARY does not name the program (ctest sets it)";
    binary_ = binary;
  }

  Result run(const std::string& arguments, const std::string& variables = "") const {
    return run_shell(variables + " '" + binary_ + "' " + arguments);
  }

  void expect_usage_error(const std::string& arguments, const std::string& message,
                          const std::string& variables = "") const {
    const Result result = run(arguments, variables);
    EXPECT_EQ(result.exit_code, 2) << arguments;
    EXPECT_THAT(result.output, IsEmpty()) << arguments;
    EXPECT_THAT(result.error, StartsWith("maxtext: error: ")) << arguments;
    EXPECT_THAT(result.error, HasSubstr(message)) << arguments;
    EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << result.error;
    EXPECT_LT(result.error.size(), 400U);
  }

 private:
  std::string binary_;
};

TEST_F(CommandLine, HelpAndVersion) {
  for (const char* arguments : {"--help", "-h", "help"}) {
    const Result help = run(arguments);
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.output, HasSubstr("\n  config  "));
    EXPECT_THAT(help.error, IsEmpty());
  }
  const Result version = run("--version");
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.output, ::testing::MatchesRegex("maxtext [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  const Result help = run("config --help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.output, HasSubstr("--dump"));
  EXPECT_EQ(run("help config").output, help.output);
}

TEST_F(CommandLine, WrongUsage) {
  expect_usage_error("", "a command is missing");
  expect_usage_error("confg", "unknown command 'confg'; did you mean config");
  expect_usage_error("--nonsense", "unknown command '--nonsense'");
  expect_usage_error("config --nonsense", "--nonsense");
  expect_usage_error("config --dump --yaml", "at most 1");
  expect_usage_error("config --yaml steps", "argument 'steps'");
}

TEST_F(CommandLine, ConfigListsAndExplainsKeys) {
  const Result all = run("config");
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_THAT(all.output, HasSubstr("\n  steps = 150001  (int, -1 or at least 1)\n"));
  const Result two = run("config steps rope_theta");
  EXPECT_EQ(two.exit_code, 0);
  EXPECT_THAT(two.output, StartsWith("steps\n"));
  EXPECT_THAT(two.output, HasSubstr("\n\nrope_max_timescale\n"));
  expect_usage_error("config stpes", "unknown key 'stpes'; did you mean steps");
  expect_usage_error("config steps stpes", "unknown key 'stpes'");
}

TEST_F(CommandLine, ConfigDumpsWhatItResolved) {
  const Result dump = run("config --dump configs/base.yml steps=5 ici_context_parallelism=2", "M_RUN_NAME=r");
  EXPECT_EQ(dump.exit_code, 0) << dump.error;
  EXPECT_THAT(dump.output, HasSubstr("\nsteps: 5  # command line\n"));
  EXPECT_THAT(dump.output, HasSubstr("\nrun_name: r  # environment M_RUN_NAME\n"));
  EXPECT_THAT(dump.output, HasSubstr("context 2, tensor 1: 2 devices\n"));
  EXPECT_THAT(dump.error, IsEmpty());
}

TEST_F(CommandLine, ConfigFilesAreAlsoFoundBelowConfigs) {
  EXPECT_EQ(run("config --dump base.yml").exit_code, 0);
  EXPECT_EQ(run("config --dump runs/llama3_1_70b_131072.yml").exit_code, 0);
}

TEST_F(CommandLine, KeysWithoutEffectAreNamedOnce) {
  const Result result = run("config --dump base.yml scan_layers=true sa_block_q=2048");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.error, "maxtext: note: without effect here: sa_block_q, scan_layers\n");
}

TEST_F(CommandLine, ConfigurationErrorsAreOneLineWithCodeTwo) {
  expect_usage_error("config --dump", "the first argument has to be a configuration file");
  expect_usage_error("config --dump steps=1", "the first argument has to be a configuration file");
  expect_usage_error("config --dump none.yml", "'none.yml' does not exist");
  expect_usage_error("config --dump base.yml stpes=1", "unknown key 'stpes' (command line); did you mean steps");
  expect_usage_error("config --dump base.yml steps", "expected key=value");
  expect_usage_error("config --dump base.yml steps=ten", "steps=ten (command line): expected an integer");
  expect_usage_error("config --dump base.yml model_name=lama2-7b", "did you mean llama2-7b");
  expect_usage_error("config --dump base.yml context_parallel_strategy=ring", "not implemented yet; use all_gather");
  expect_usage_error("config --dump base.yml", "steps=x (environment M_STEPS)", "M_STEPS=x");
}

TEST_F(CommandLine, AWrongConfigurationIsReportedWithinHalfASecond) {
  const auto start = std::chrono::steady_clock::now();
  run("config --dump base.yml model_name=llama3.1-70b stpes=1");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
}

/// A source tree with one file of the given content, checked by scripts/check_layers.
Result check_layers(const std::string& file, const std::string& content) {
  std::string folder = (fs::temp_directory_path() / "maxtext_layers_XXXXXX").string();
  ::mkdtemp(folder.data());
  fs::create_directories((fs::path(folder) / file).parent_path());
  std::ofstream(fs::path(folder) / file) << content;
  Result result = run_shell("scripts/check_layers '" + folder + "'");
  fs::remove_all(folder);
  return result;
}

TEST(CheckLayers, OurSourcesAreInOrder) {
  const Result result = run_shell("scripts/check_layers");
  EXPECT_EQ(result.exit_code, 0) << result.output << result.error;
}

TEST(CheckLayers, FindsWhatIsOutOfOrder) {
  const Result result = check_layers("config/a.h", "// a\n#include \"base/error.h\"\n#include \"ops/op.h\"\n");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.output, HasSubstr("config/a.h:3: layer config may not include 'ops/op.h'"));
  EXPECT_EQ(check_layers("ops/a.cc", "#include \"engines/cpu/x.h\"\n").exit_code, 1);
  EXPECT_EQ(check_layers("train/a.cc", "#include \"engines/dry/x.h\"\n").exit_code, 1);
  EXPECT_EQ(check_layers("engines/cpu/a.cc", "#include \"engines/dry/x.h\"\n").exit_code, 1);
  EXPECT_EQ(check_layers("engines/cpu/a.cc", "#include \"model/x.h\"\n").exit_code, 1);
  EXPECT_EQ(check_layers("ops/a.cc", "#include \"op.h\"\n").exit_code, 1) << "not relative to src";
}

TEST(CheckLayers, AcceptsWhatIsInOrder) {
  EXPECT_EQ(check_layers("ops/a.cc", "#include \"ops/op.h\"\n#include \"tensor/x.h\"\n#include <vector>\n").exit_code,
            0);
  EXPECT_EQ(check_layers("engines/cpu/a.cc", "#include \"ops/x.h\"\n#include \"engines/cpu/y.h\"\n").exit_code, 0);
  EXPECT_EQ(check_layers("cli/a.cc", "#include \"engines/cpu/x.h\"\n#include \"train/x.h\"\n").exit_code, 0);
}

}  // namespace
}  // namespace maxtext
