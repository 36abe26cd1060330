#include "end_to_end/training_runs.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "checkpoint/reader.h"

namespace maxtext::testing {
namespace {

namespace fs = std::filesystem;

/// Sentences of a small vocabulary in an order that is always the same, so that there is something to learn.
void write_text(const fs::path& path, int documents) {
  const std::vector<std::string> words = {"in", "the", "beginning", "was", "light", "and", "it", "shone"};
  std::ofstream file(path);
  std::size_t word = 0;
  for (int i = 0; i < documents; ++i) {
    std::string text;
    for (int k = 0; k < 2 + i * 5 % 11; ++k, ++word) {
      text += (k == 0 ? "" : " ") + words[word * (word + 1) / 2 % words.size()];
    }
    file << nlohmann::json{{"text", text}} << "\n";
  }
}

std::vector<std::string> split(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> parts;
  for (std::string part; stream >> part;) parts.push_back(part);
  return parts;
}

::testing::AssertionResult same_kind(const CheckpointReader& left, const CheckpointReader& right,
                                     const std::string& kind) {
  if (left.names(kind) != right.names(kind)) return ::testing::AssertionFailure() << kind << ": other tensors";
  for (const std::string& name : left.names(kind)) {
    const TensorSpec& spec = left.spec(kind, name);
    if (!(spec == right.spec(kind, name))) return ::testing::AssertionFailure() << kind << ' ' << name << ": shapes";
    std::vector<std::byte> x(static_cast<std::size_t>(spec.bytes()));
    std::vector<std::byte> y(x.size());
    left.read_range(kind, name, 0, spec.elements(), x);
    right.read_range(kind, name, 0, spec.elements(), y);
    if (x != y) return ::testing::AssertionFailure() << kind << ' ' << name << " differs";
  }
  return ::testing::AssertionSuccess();
}

}  // namespace

void TrainingRuns::SetUp() {
  const char* binary = std::getenv("MAXTEXT_BINARY");
  if (binary == nullptr) FAIL() << "MAXTEXT_BINARY does not name the program (ctest sets it)";
  binary_ = binary;
  write_text(path("train.jsonl"), 60);
  write_text(path("eval.jsonl"), 5);
}

std::vector<std::string> TrainingRuns::command(const std::string& run, const std::string& overrides) const {
  std::vector<std::string> words = {binary_,
                                    "train",
                                    "configs/base.yml",
                                    "run_name=" + run,
                                    "base_output_directory=" + path("").string(),
                                    "model_name=llama-tiny",
                                    "tokenizer_type=bytes",
                                    "dataset_type=text",
                                    "train_files=" + path("train.jsonl").string(),
                                    "eval_files=" + path("eval.jsonl").string(),
                                    "max_target_length=64",
                                    "global_batch_size=2",
                                    "num_epoch=1000",
                                    "learning_rate=0.01",
                                    "learning_rate_schedule_steps=12",
                                    "metrics_file=" + metrics_path(run).string()};
  for (const std::string& part : split(overrides)) words.push_back(part);
  return words;
}

std::vector<std::string> TrainingRuns::launched(int processes, const std::string& run,
                                                const std::string& overrides) const {
  std::vector<std::string> words = {"mpirun", "--oversubscribe", "--allow-run-as-root", "-n",
                                    std::to_string(processes)};
  for (const std::string& word : command(run, overrides)) words.push_back(word);
  return words;
}

ProgramResult TrainingRuns::run(const std::string& name, const std::string& overrides) const {
  return Program(command(name, overrides)).wait();
}

ProgramResult TrainingRuns::train(const std::string& name, const std::string& overrides) const {
  const ProgramResult result = run(name, overrides);
  EXPECT_EQ(result.exit_code, 0) << overrides << '\n' << result.output << result.error;
  for (const std::string& line : lines_of(result.error)) {
    EXPECT_NE(line.find("[info] tokenized"), std::string::npos) << line;
  }
  return result;
}

std::vector<nlohmann::json> TrainingRuns::metrics(const std::string& run) const {
  std::vector<nlohmann::json> lines;
  for (const std::string& line : lines_of(read_file(metrics_path(run)))) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::vector<int> TrainingRuns::steps(const std::string& run) const {
  std::vector<int> found;
  for (const nlohmann::json& line : metrics(run)) found.push_back(line.at("step"));
  return found;
}

std::vector<double> TrainingRuns::losses(const std::string& run) const {
  std::vector<double> found;
  for (const nlohmann::json& line : metrics(run)) found.push_back(line.at("loss"));
  return found;
}

void write_bad_tokens(const fs::path& path) {
  std::vector<std::uint16_t> ids(2000, 5);
  ids[1000] = 512;
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(ids.data()), static_cast<std::streamsize>(2 * ids.size()));
}

std::vector<std::string> lines_with(const std::string& text, const std::string& part) {
  std::vector<std::string> found;
  for (const std::string& line : lines_of(text)) {
    if (line.find(part) != std::string::npos) found.push_back(line);
  }
  return found;
}

::testing::AssertionResult same_checkpoint(const fs::path& a, const fs::path& b) {
  const CheckpointReader left(a);
  const CheckpointReader right(b);
  if (left.kinds() != right.kinds() || left.kinds().size() != 3) {
    return ::testing::AssertionFailure() << "kinds of state differ, or are not three";
  }
  if (left.info().cursor != right.info().cursor || left.info().step != right.info().step) {
    return ::testing::AssertionFailure() << "cursors " << left.info().cursor << " and " << right.info().cursor;
  }
  for (const std::string& kind : left.kinds()) {
    if (const auto same = same_kind(left, right, kind); !same) return same;
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult same_weights(const fs::path& a, const fs::path& b) {
  return same_kind(CheckpointReader(a), CheckpointReader(b), std::string(kWeights));
}

std::vector<std::string> numbers(const std::vector<nlohmann::json>& metrics) {
  std::vector<std::string> found;
  for (const nlohmann::json& line : metrics) {
    found.push_back(line.at("step").dump() + " " + line.at("loss").dump() + " " + line.at("total_weights").dump() +
                    " " + line.at("grad_norm").dump() + " " + line.at("learning_rate").dump());
  }
  return found;
}

}  // namespace maxtext::testing
