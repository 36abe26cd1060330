// What `--json FILE` of the commands names.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/output_file.h"

namespace maxtext {

class JsonFile {
 public:
  /// Checks that `path` can be written and is none of the inputs, which are listed for a file only, before anything is
  /// computed, and leaves what it holds as it is; "-" is standard output, an empty path nothing. Throws ConfigError
  /// naming it otherwise.
  JsonFile(std::string path, const std::function<InputFiles()>& list_inputs);

  /// Then nothing else may be printed there.
  bool is_standard_output() const { return path_ == "-"; }

  /// Replaces the file by the report, indented, arrays of numbers on one line; nothing without a path. Throws Error
  /// when that fails.
  void write(const nlohmann::ordered_json& report);

 private:
  std::string path_;
};

}  // namespace maxtext
