// What `--json FILE` of the commands names.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace maxtext {

class JsonFile {
 public:
  /// Checks that `path` can be written, before anything is computed, and leaves what it holds as it is; nothing for an
  /// empty path. Throws ConfigError naming it when it cannot be written, and for "-".
  explicit JsonFile(std::string path);

  /// Replaces the file by the report, indented; nothing without a path. Throws Error when that fails.
  void write(const nlohmann::ordered_json& report);

 private:
  std::string path_;
};

}  // namespace maxtext
