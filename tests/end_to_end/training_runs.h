// A folder with text to train on, and `maxtext train` in it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testing/program.h"

namespace maxtext::testing {

class TrainingRuns : public ::testing::Test {
 protected:
  void SetUp() override;

  const std::string& binary() const { return binary_; }
  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  std::filesystem::path metrics_path(const std::string& run) const { return path(run + ".metrics"); }
  std::filesystem::path checkpoint(const std::string& run, int step) const {
    return path(run) / "checkpoints" / std::to_string(step);
  }

  /// The command that trains llama-tiny on the folder's text, two rows of 64 bytes per step, without end; `overrides`
  /// are separated by spaces, later ones win.
  std::vector<std::string> command(const std::string& run, const std::string& overrides) const;
  /// The same with one process per device.
  std::vector<std::string> launched(int processes, const std::string& run, const std::string& overrides) const;

  ProgramResult run(const std::string& name, const std::string& overrides) const;
  /// The same, which has to end with code 0 and nothing on stderr but the log of tokenising.
  ProgramResult train(const std::string& name, const std::string& overrides) const;

  /// The metrics file, a line per step.
  std::vector<nlohmann::json> metrics(const std::string& run) const;
  std::vector<int> steps(const std::string& run) const;
  std::vector<double> losses(const std::string& run) const;

 private:
  TemporaryDirectory folder_ = TemporaryDirectory::in_memory();
  std::string binary_;
};

/// 2000 tokens of uint16, a document, of which the one of index 1000 is beyond the vocabulary: in rows of 64 and two
/// rows per step, step 7 meets it.
void write_bad_tokens(const std::filesystem::path& path);

/// Lines of one kind among those printed.
std::vector<std::string> lines_with(const std::string& text, const std::string& part);

/// Weights, both moments and the data cursor are the same, bit for bit, whoever wrote which part.
::testing::AssertionResult same_checkpoint(const std::filesystem::path& a, const std::filesystem::path& b);

/// Weights only.
::testing::AssertionResult same_weights(const std::filesystem::path& a, const std::filesystem::path& b);

/// The columns of a metrics file that do not depend on time: equal texts are equal bits.
std::vector<std::string> numbers(const std::vector<nlohmann::json>& metrics);

}  // namespace maxtext::testing
