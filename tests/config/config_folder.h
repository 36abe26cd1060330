// Configuration files for tests: the project's own, and ones made for a test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/load.h"

namespace maxtext::testing {

inline std::filesystem::path project_root() {
  return std::filesystem::absolute(__FILE__).parent_path().parent_path().parent_path();
}

inline std::filesystem::path base_file() { return project_root() / "configs" / "base.yml"; }

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// A folder of its own for one test, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "maxtext_config_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file;
  }

 private:
  std::filesystem::path path_;
};

/// The project's base.yml with overrides, as a command that only looks at it would load it.
inline Config load(std::vector<std::string> overrides, std::optional<int> launched_devices = std::nullopt) {
  return load_config({base_file(), std::move(overrides), {}, launched_devices, false});
}

/// The message of the ConfigError that `action` throws; fails the test when it throws none or a message of more than
/// one line.
template <typename Action>
std::string config_error(Action action) {
  try {
    action();
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 400U) << message;
    return message;
  }
  ADD_FAILURE() << "no ConfigError";
  return "";
}

inline std::string load_error(std::vector<std::string> overrides, std::optional<int> launched_devices = std::nullopt) {
  return config_error([&] { load(std::move(overrides), launched_devices); });
}

}  // namespace maxtext::testing
