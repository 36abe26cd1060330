#include "cli/json_file.h"

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace maxtext {

JsonFile::JsonFile(std::string path, const std::function<InputFiles()>& list_inputs) : path_(std::move(path)) {
  if (path_.empty() || is_standard_output()) return;
  check_output_file("--json", path_, list_inputs());
}

void JsonFile::write(const nlohmann::ordered_json& report) {
  if (path_.empty()) return;
  if (is_standard_output()) {
    std::cout << report.dump(2) << "\n";
    return;
  }
  std::ofstream file(path_);
  file << report.dump(2) << "\n";
  file.close();
  if (!file) fail("--json {}: writing failed", path_);
}

}  // namespace maxtext
