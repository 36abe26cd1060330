#include "cli/json_file.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace maxtext {

JsonFile::JsonFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  if (path_ == "-") fail_config("--json -: expected the name of a file");
  // Without emptying it: until there is something to write, what stands there is worth more.
  file_.open(path_, std::ios::app);
  if (!file_) fail_config("--json {}: cannot be written", path_);
}

void JsonFile::write(const nlohmann::ordered_json& report) {
  if (path_.empty()) return;
  file_.close();
  file_.open(path_, std::ios::trunc);
  file_ << report.dump(2) << "\n";
  file_.close();
  if (!file_) fail("--json {}: writing failed", path_);
}

}  // namespace maxtext
