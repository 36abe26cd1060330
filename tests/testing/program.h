// Runs a program as a user does and looks at what it printed, its exit code and its time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "testing/temporary_directory.h"

namespace maxtext::testing {

struct ProgramResult {
  /// 128 + the signal's number when a signal ended it, as in a shell.
  int exit_code = -1;
  std::string output;
  std::string error;
  double seconds = 0;
};

/// A process under way, without terminal or input, in the source tree's root folder.
class Program {
 public:
  /// `command`: the program (found in PATH) and its arguments. `variables`: "NAME=value" beside our own environment.
  explicit Program(const std::vector<std::string>& command, const std::vector<std::string>& variables = {});
  /// Kills it if it still runs.
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  /// Sends a signal, unless it was waited for already.
  void signal(int number) const;
  /// Waits until standard output holds `text`; false when it ends without, or after `seconds`.
  bool wait_for_output(const std::string& text, double seconds = 30);
  /// Waits for its end; after `seconds` it is killed and the test has failed.
  ProgramResult wait(double seconds = 60);
  std::string output() const;

 private:
  bool has_ended();

  TemporaryDirectory folder_ = TemporaryDirectory::in_memory();
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

std::vector<std::string> lines_of(const std::string& text);

}  // namespace maxtext::testing
