#include "train/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.h"
#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::read_file;
using testing::TemporaryDirectory;
using ::testing::ThrowsMessage;
using testing::write_file;

StepMetrics example(std::int64_t step, double loss = 5.1204) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = loss;
  metrics.total_weights = 4093;
  metrics.grad_norm = 1.2034;
  metrics.learning_rate = 3e-4;
  metrics.step_time_seconds = 0.8126;
  metrics.tokens_per_second_per_device = 2521;
  metrics.tflops_per_second_per_device = 0.10149;
  metrics.peak_memory_bytes = 1234567;
  return metrics;
}

std::vector<std::int64_t> steps_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::int64_t> steps;
  for (std::string line; std::getline(file, line);) steps.push_back(nlohmann::json::parse(line).at("step"));
  return steps;
}

/// Lines of `steps`, marked by their loss as of this attempt.
void write_steps(const std::filesystem::path& path, std::int64_t first, std::int64_t last, double loss) {
  MetricsFile file(path);
  file.begin(first);
  for (std::int64_t step = first; step <= last; ++step) file.append(example(step, loss));
}

void begin(const std::filesystem::path& path, std::optional<std::int64_t> resumed_step) {
  MetricsFile(path).begin(resumed_step);
}

TEST(StepLine, IsExactlyTheDocumentedOne) {
  EXPECT_EQ(step_line(example(3)),
            "completed step: 3, seconds: 0.813, TFLOP/s/device: 0.101, Tokens/s/device: 2521.000, "
            "total_weights: 4093, loss: 5.120, grad_norm: 1.203, learning_rate: 3.000e-04");
}

TEST(StepLine, EvalLineHasPerplexity) {
  EXPECT_EQ(eval_line(3, 2.0, 8190),
            "Completed eval after train step 3, loss=2.000, perplexity=7.389, total_weights=8190");
}

TEST(StepLine, WhatIsNotANumberHasNoSign) {
  StepMetrics metrics = example(3);
  metrics.loss = metrics.grad_norm = -std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(step_line(metrics), HasSubstr("loss: nan, grad_norm: nan,"));
  EXPECT_THAT(eval_line(3, metrics.loss, 1), HasSubstr("loss=nan, perplexity=nan,"));
}

TEST(StepMetrics, RatesAreWorkOverTimeAndNeverInfinite) {
  StepMetrics metrics;
  metrics.step_time_seconds = 0.5;
  set_rates(metrics, 1000, 3e12);
  EXPECT_DOUBLE_EQ(metrics.tokens_per_second_per_device, 2000);
  EXPECT_DOUBLE_EQ(metrics.tflops_per_second_per_device, 6);
  metrics.step_time_seconds = 0;
  set_rates(metrics, 1000, 3e12);
  EXPECT_EQ(metrics.tokens_per_second_per_device, 0);
  EXPECT_EQ(metrics.tflops_per_second_per_device, 0);
}

TEST(MetricsJson, HasEveryFieldInOrderAndReadsBackExactly) {
  StepMetrics metrics = example(7);
  metrics.loss = 0.1 + 0.2;
  const auto line = nlohmann::ordered_json::parse(metrics_json(metrics));
  std::vector<std::string> keys;
  for (const auto& [key, value] : line.items()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("step", "loss", "total_weights", "grad_norm", "learning_rate", "step_time_seconds",
                                "tokens_per_second_per_device", "tflops_per_second_per_device", "peak_memory_bytes"));
  EXPECT_EQ(line.at("loss").get<double>(), 0.1 + 0.2);
  EXPECT_EQ(line.at("peak_memory_bytes").get<std::int64_t>(), 1234567);
}

TEST(MetricsJson, NotANumberIsNull) {
  const auto line = nlohmann::json::parse(metrics_json(example(7, std::numeric_limits<double>::quiet_NaN())));
  EXPECT_TRUE(line.at("loss").is_null());
}

TEST(MetricsFile, CreatesItsFolder) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "a" / "b" / "metrics.jsonl";
  write_steps(path, 0, 2, 1.0);
  EXPECT_THAT(steps_in(path), ElementsAre(0, 1, 2));
}

TEST(MetricsFile, EveryStepStandsOnceAfterAResume) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "metrics.jsonl";
  write_steps(path, 0, 5, 1.0);
  write_steps(path, 3, 6, 2.0);
  EXPECT_THAT(steps_in(path), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto parsed = nlohmann::json::parse(line);
    EXPECT_EQ(parsed.at("loss").get<double>(), parsed.at("step").get<int>() < 3 ? 1.0 : 2.0);
  }
}

TEST(MetricsFile, StartingAnewKeepsTheLinesOfEarlierRuns) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "metrics.jsonl";
  write_steps(path, 0, 5, 1.0);
  const std::string first = read_file(path);
  ::testing::internal::CaptureStdout();
  write_steps(path, 0, 2, 2.0);
  const std::string notice = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(notice, AllOf(HasSubstr("6 lines"), HasSubstr(path.string() + ".old-1")));
  EXPECT_EQ(std::count(notice.begin(), notice.end(), '\n'), 1);
  const std::string second = read_file(path);
  EXPECT_EQ(read_file(path.string() + ".old-1"), first);
  begin(path, 0);
  EXPECT_EQ(read_file(path), "");
  EXPECT_EQ(read_file(path.string() + ".old-1"), first);
  EXPECT_EQ(read_file(path.string() + ".old-2"), second);
  begin(path, 0);
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".old-3")) << "nothing to keep in an empty file";
}

TEST(MetricsFile, ARunThatBranchesOffKeepsTheLinesOfItsOrigin) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "metrics.jsonl";
  write_steps(path, 0, 5, 1.0);
  const std::string trunk = read_file(path);
  {
    MetricsFile file(path);
    file.begin(std::nullopt);
    file.append(example(3));
  }
  EXPECT_THAT(steps_in(path), ElementsAre(3));
  EXPECT_EQ(read_file(path.string() + ".old-1"), trunk);
}

TEST(MetricsFile, OpeningChangesNothing) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "metrics.jsonl";
  write_steps(path, 0, 2, 1.0);
  const std::string before = read_file(path);
  { const MetricsFile file(path); }
  EXPECT_EQ(read_file(path), before);
}

TEST(MetricsFile, BelongsToOneRunAtATime) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "metrics.jsonl";
  write_steps(path, 0, 3, 1.0);
  // Set aside, cut, and as it is: each way the file that the path names in the end is locked.
  for (const std::optional<std::int64_t> resumed :
       {std::optional<std::int64_t>(), std::optional<std::int64_t>(1), std::optional<std::int64_t>(2)}) {
    MetricsFile first(path);
    first.begin(resumed);
    for (std::int64_t step = resumed.value_or(0); step < 2; ++step) first.append(example(step));
    const std::string before = read_file(path);
    MetricsFile second(path);
    EXPECT_THAT([&] { second.begin(std::nullopt); },
                ::testing::ThrowsMessage<Error>(AllOf(HasSubstr(path.string()), HasSubstr("another run is writing"))));
    EXPECT_EQ(read_file(path), before);
  }
  begin(path, 2);  // free again
}

TEST(MetricsFile, OneThatIsSetAsideWhileAnotherRunWaitsIsNotWrittenTo) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "metrics.jsonl";
  write_steps(path, 0, 3, 1.0);
  MetricsFile late(path);  // opens the file that the next line renames
  begin(path, std::nullopt);
  late.begin(std::nullopt);
  late.append(example(0));
  EXPECT_THAT(steps_in(path), ElementsAre(0));
  EXPECT_THAT(steps_in(path.string() + ".old-1"), ElementsAre(0, 1, 2, 3));
}

TEST(MetricsFile, MayBeADevice) {
  MetricsFile first("/dev/null");
  first.begin(std::nullopt);
  MetricsFile second("/dev/null");
  second.begin(std::nullopt);
  second.append(example(0));
}

TEST(MetricsFile, CutAnywhereTheFileContinuesWithWholeLines) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "metrics.jsonl";
  write_steps(path, 0, 1, 1.0);
  const std::string whole = read_file(path);
  const std::size_t first_line = whole.find('\n') + 1;
  for (std::size_t length = first_line; length <= whole.size(); ++length) {
    write_file(path, whole.substr(0, length));
    write_steps(path, 2, 2, 1.0);
    const bool second_survives = length + 1 >= whole.size();  // only its newline may be missing
    const std::vector<std::int64_t> expected =
        second_survives ? std::vector<std::int64_t>{0, 1, 2} : std::vector<std::int64_t>{0, 2};
    EXPECT_EQ(steps_in(path), expected) << "cut to " << length << " bytes";
  }
}

TEST(MetricsFile, LeavesAFileAloneThatNeedsNoChange) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "metrics.jsonl";
  write_steps(path, 0, 1, 1.0);
  const auto before = read_file(path);
  begin(path, 2);
  EXPECT_EQ(read_file(path), before);
}

TEST(MetricsFile, RefusesAFileOfSomethingElse) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "notes.txt";
  write_file(path, "{\"step\": 0}\nmy notes\nmore notes\n");
  try {
    begin(path, 1);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("notes.txt"), HasSubstr("line 2")));
  }
  EXPECT_EQ(read_file(path), "{\"step\": 0}\nmy notes\nmore notes\n");
}

TEST(MetricsFile, UnwritablePathIsAnErrorThatNamesIt) {
  try {
    const MetricsFile file("/proc/no/such/metrics.jsonl");
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("metrics_file=/proc/no/such/metrics.jsonl: cannot be written"));
  }
}

TEST(MetricsFile, APipeIsAnErrorAtOnce) {
  const TemporaryDirectory directory;
  const std::string pipe = (directory.path() / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT([&] { MetricsFile file{pipe}; }, ThrowsMessage<ConfigError>(HasSubstr("is a pipe")));
}

/// Runs in a child process, whose file size limit stands in for a full disk: a write crosses it and is cut short.
int append_over_the_limit(const std::filesystem::path& path) {
  signal(SIGXFSZ, SIG_IGN);
  MetricsFile file(path);
  file.begin(0);
  file.append(example(0));
  const auto one_line = static_cast<rlim_t>(std::filesystem::file_size(path));
  const rlimit limit{one_line + one_line / 2, RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &limit);
  try {
    file.append(example(1));
    return 1;
  } catch (const Error&) {
  }
  const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &unlimited);
  file.append(example(2));
  return 0;
}

TEST(MetricsFile, FullDiskIsAnErrorAndLeavesNoHalfLine) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "metrics.jsonl";
  const pid_t child = fork();
  if (child == 0) _exit(append_over_the_limit(path));
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(steps_in(path), ElementsAre(0, 2));
}

}  // namespace
}  // namespace maxtext
