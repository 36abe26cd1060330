#include "testing/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstring>
#include <filesystem>
#include <sstream>
#include <thread>

#include "base/error.h"

extern char** environ;

namespace maxtext::testing {
namespace {

constexpr std::chrono::milliseconds kPoll{2};

std::string source_root() { return std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().string(); }

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  return result;
}

class FileActions {
 public:
  FileActions(const std::string& output, const std::string& error) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, 1, output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_addopen(&actions_, 2, error.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_addchdir_np(&actions_, source_root().c_str());
  }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

}  // namespace

Program::Program(const std::vector<std::string>& command, const std::vector<std::string>& variables) {
  const FileActions actions(folder_.path() / "output", folder_.path() / "error");
  std::vector<char*> arguments = pointers(command);
  arguments.push_back(nullptr);
  std::vector<char*> environment = pointers(variables);
  for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
  environment.push_back(nullptr);
  const int code =
      posix_spawnp(&pid_, command.front().c_str(), actions.get(), nullptr, arguments.data(), environment.data());
  if (code != 0) fail("cannot start {}: {}", command.front(), std::strerror(code));
}

Program::~Program() {
  if (ended_ || pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, &status_, 0);
}

void Program::signal(int number) const {
  if (!ended_) kill(pid_, number);
}

bool Program::has_ended() {
  if (!ended_) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_;
}

std::string Program::output() const { return read_file(folder_.path() / "output"); }

bool Program::wait_for_output(const std::string& text, double seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < deadline) {
    const bool last = has_ended();
    if (output().find(text) != std::string::npos) return true;
    if (last) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return false;
}

ProgramResult Program::wait(double seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!has_ended()) {
    if (std::chrono::steady_clock::now() >= deadline) {
      ADD_FAILURE() << "a program did not end within " << seconds << " s:\n" << output();
      signal(SIGKILL);
    }
    std::this_thread::sleep_for(kPoll);
  }
  ProgramResult result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  result.exit_code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  result.output = output();
  result.error = read_file(folder_.path() / "error");
  return result;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace maxtext::testing
