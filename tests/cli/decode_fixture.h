// Runs commands that generate or evaluate, on the tiny models of the fixtures, as a user does.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "testing/fixtures.h"
#include "testing/program.h"
#include "testing/temporary_directory.h"

namespace maxtext {

class DecodeCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* binary = std::getenv("MAXTEXT_BINARY");
    if (binary == nullptr) FAIL() << "MAXTEXT_BINARY does not name the program (ctest sets it)";
    binary_ = binary;
  }

  /// The exit code; what the program printed is in out() and err().
  int run(const std::string& arguments) {
    testing::Program program({"sh", "-c", "'" + binary_ + "' " + arguments});
    result_ = program.wait(120);
    return result_.exit_code;
  }

  /// A model of 259 tokens, the bytes tokenizer's vocabulary.
  std::string decode(const std::string& arguments) const {
    return "decode configs/base.yml tokenizer_type=bytes load_parameters_path='" + model() + "' " + arguments;
  }
  static std::string model() { return (testing::fixture_root() / "hf/models/llama-tied").string(); }

  /// Wrong usage: one line on standard error that contains `text`, nothing on standard output, exit code `code`.
  void expect_error(const std::string& arguments, const std::string& text, int code = 2) {
    EXPECT_EQ(run(arguments), code) << arguments << "\n" << err();
    const std::string message = err();
    EXPECT_THAT(message, ::testing::HasSubstr(text));
    EXPECT_EQ(std::ranges::count(message, '\n'), 1) << message;
    EXPECT_EQ(out(), "");
  }

  /// What is wrong with a model is said the same way, with exit code 2, by every command that generates or evaluates.
  void expect_model_error(const std::filesystem::path& model, const std::vector<std::string>& parts) {
    const std::string path = "load_parameters_path='" + model.string() + "'";
    for (const std::string& command :
         {std::string("decode configs/base.yml"),
          "eval configs/base.yml dataset_type=text dataset_path='" + this->path("text.txt") + "'",
          "check-logits configs/base.yml --atol 1 --golden_logits_path '" + this->model() + "'"}) {
      SCOPED_TRACE(command + " " + path);
      expect_error(command + " tokenizer_type=bytes " + path, "load_parameters_path=" + model.string() + ": ");
      for (const std::string& part : parts) EXPECT_THAT(err(), ::testing::HasSubstr(part));
    }
  }

  const std::string& binary() const { return binary_; }
  const std::string& out() const { return result_.output; }
  const std::string& err() const { return result_.error; }
  std::string path(const std::string& name) const { return (directory_.path() / name).string(); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }

 private:
  testing::TemporaryDirectory directory_;
  std::string binary_;
  testing::ProgramResult result_;
};

}  // namespace maxtext
