#include "cli/json_file.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace maxtext {
namespace {

using Json = nlohmann::ordered_json;

bool is_scalar(const Json& value) { return !value.is_structured(); }

/// Indented by 2 as Json::dump does it, but arrays of scalars, such as token ids, are one line.
void print(std::ostream& out, const Json& value, const std::string& margin) {
  if (is_scalar(value) || value.empty() || (value.is_array() && std::ranges::all_of(value, is_scalar))) {
    out << value.dump();
    return;
  }
  out << (value.is_object() ? "{" : "[");
  std::string_view separator = "\n";
  for (const auto& [key, element] : value.items()) {
    out << std::exchange(separator, ",\n") << margin << "  ";
    if (value.is_object()) out << Json(key).dump() << ": ";
    print(out, element, margin + "  ");
  }
  out << "\n" << margin << (value.is_object() ? "}" : "]");
}

}  // namespace

JsonFile::JsonFile(std::string path, const std::function<InputFiles()>& list_inputs) : path_(std::move(path)) {
  if (path_.empty() || is_standard_output()) return;
  check_output_file("--json", path_, list_inputs());
}

void JsonFile::write(const nlohmann::ordered_json& report) {
  if (path_.empty()) return;
  if (is_standard_output()) {
    print(std::cout, report, "");
    std::cout << "\n";
    return;
  }
  std::ofstream file(path_);
  print(file, report, "");
  file << "\n";
  file.close();
  if (!file) fail("--json {}: writing failed", path_);
}

}  // namespace maxtext
