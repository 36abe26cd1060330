#include "cli/json_file.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace maxtext {

JsonFile::JsonFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  if (path_ == "-") fail_config("--json -: expected the name of a file");
  // Without emptying it: until there is something to write, what stands there is worth more.
  if (!std::ofstream(path_, std::ios::app)) fail_config("--json {}: cannot be written", path_);
}

void JsonFile::write(const nlohmann::ordered_json& report) {
  if (path_.empty()) return;
  std::ofstream file(path_);
  file << report.dump(2) << "\n";
  file.close();
  if (!file) fail("--json {}: writing failed", path_);
}

}  // namespace maxtext
