// `maxtext train` from the outside: evaluation on any number of devices, stopping and resuming.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "testing/temporary_directory.h"

namespace maxtext {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::SizeIs;

class TrainCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* binary = std::getenv("MAXTEXT_BINARY");
    if (binary == nullptr) FAIL() << "MAXTEXT_BINARY does not name the program (ctest sets it)";
    binary_ = binary;
    write_text("train.jsonl", 40);
    write_text("eval.jsonl", 3);
  }

  /// Documents of 10 to 30 bytes: rows of 64 tokens hold several, and a short last row leaves shards without targets.
  void write_text(const std::string& name, int documents) const {
    std::ofstream file(folder_.path() / name);
    for (int i = 0; i < documents; ++i) {
      file << nlohmann::json{{"text",
                              std::string(static_cast<std::size_t>(10 + 7 * i % 21), static_cast<char>('a' + i % 26))}}
           << "\n";
    }
  }

  /// Trains in the folder of the test and returns the lines printed.
  std::vector<std::string> train(const std::string& run, const std::string& overrides) const {
    const fs::path root = fs::path(__FILE__).parent_path().parent_path().parent_path();
    const fs::path log = folder_.path() / (run + ".log");
    const std::string command =
        "cd '" + root.string() + "' && '" + binary_ + "' train configs/base.yml run_name='" + run + "'" +
        " base_output_directory=" + folder_.path().string() + " model_name=llama-tiny tokenizer_type=bytes " +
        "dataset_type=text train_files=" + (folder_.path() / "train.jsonl").string() +
        " eval_files=" + (folder_.path() / "eval.jsonl").string() +
        " max_target_length=64 global_batch_size=2 num_epoch=100 learning_rate=0.01 learning_rate_schedule_steps=6" +
        " metrics_file='" + metrics(run).string() + "' " + overrides + " > '" + log.string() + "' 2>&1 < /dev/null";
    const int status = std::system(command.c_str());
    const std::string output = testing::read_file(log);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << output;
    std::vector<std::string> lines;
    std::istringstream stream(output);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

  fs::path metrics(const std::string& run) const { return folder_.path() / (run + ".metrics"); }

  /// Losses by step, as written.
  std::vector<std::pair<std::int64_t, double>> losses(const std::string& run) const {
    std::ifstream file(metrics(run));
    std::vector<std::pair<std::int64_t, double>> found;
    for (std::string line; std::getline(file, line);) {
      const auto parsed = nlohmann::json::parse(line);
      found.emplace_back(parsed.at("step"), parsed.at("loss"));
    }
    return found;
  }

  testing::TemporaryDirectory folder_;
  std::string binary_;
};

std::vector<std::string> lines_starting_with(const std::vector<std::string>& lines, const std::string& start) {
  std::vector<std::string> found;
  for (const std::string& line : lines) {
    if (line.starts_with(start)) found.push_back(line);
  }
  return found;
}

/// The number behind "loss=" in a line of evaluation.
double loss_in(const std::string& line) { return std::stod(line.substr(line.find("loss=") + 5)); }

TEST_F(TrainCommand, EvaluationIsThatOfOneDeviceOnAnyNumber) {
  const auto evaluations = [&](const std::string& run, const std::string& mesh) {
    return lines_starting_with(train(run, "steps=2 eval_interval=1000 " + mesh), "Completed eval");
  };
  const auto expected = evaluations("one", "");
  ASSERT_THAT(expected, SizeIs(2));
  int number = 0;
  for (const char* mesh :
       {"ici_context_parallelism=2", "ici_context_parallelism=3", "ici_context_parallelism=2 ici_fsdp_parallelism=2"}) {
    const auto found = evaluations("run" + std::to_string(number++), mesh);
    ASSERT_THAT(found, SizeIs(2)) << mesh;
    EXPECT_EQ(found[0], expected[0]) << mesh;  // before any step weights are equal, and so is all that is printed
    EXPECT_NEAR(loss_in(found[1]), loss_in(expected[1]), 0.0011) << mesh;  // one unit of the last digit printed
  }
}

TEST_F(TrainCommand, AResumedRunIsTheUninterruptedOneBitForBit) {
  train("whole", "steps=6 ici_context_parallelism=2");
  train("parts", "steps=2 ici_context_parallelism=2");
  train("parts", "steps=3 ici_context_parallelism=2");
  train("parts", "steps=6 ici_context_parallelism=2");
  ASSERT_THAT(losses("whole"), SizeIs(6));
  EXPECT_EQ(losses("parts"), losses("whole"));
}

TEST_F(TrainCommand, StepsThatACrashLostAreWrittenOnceWhenTheyAreDoneAgain) {
  train("crashed", "steps=2 checkpoint_period=2");
  {
    // What a run that died between two checkpoints leaves behind.
    std::ofstream file(metrics("crashed"), std::ios::app);
    file << R"({"step":2,"loss":1.0})"
         << "\n"
         << R"({"step":3,"lo)";
  }
  train("crashed", "steps=4");
  std::vector<std::int64_t> steps;
  for (const auto& [step, loss] : losses("crashed")) steps.push_back(step);
  EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3));
}

TEST_F(TrainCommand, AModelThatHuggingFaceHasNoNameForIsSavedAndResumed) {
  const std::string windows = "attention_layer_pattern=global,local_sliding sliding_window_size=8 ";
  train("windows", windows + "steps=2");
  train("windows", windows + "steps=4");
  EXPECT_THAT(losses("windows"), SizeIs(4));
}

TEST_F(TrainCommand, APipeGetsWholeLinesAndNoBar) {
  for (const std::string& line : train("piped", "steps=3")) {
    EXPECT_EQ(line.find('\r'), std::string::npos) << line;
    EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace maxtext
