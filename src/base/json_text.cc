#include "base/json_text.h"

#include <fstream>
#include <iterator>

#include "base/error.h"

namespace maxtext {

using nlohmann::json;

std::string why_not_json(const json::exception& error) {
  const auto* syntax = dynamic_cast<const json::parse_error*>(&error);
  if (syntax == nullptr) return "not valid JSON: a number in it is out of range";
  return fmt::format("not valid JSON at byte {}", syntax->byte);
}

namespace {

/// Python's json.dump writes what JSON does not have.
std::string_view note_on_number(std::string_view text, const json::exception& error) {
  const auto* syntax = dynamic_cast<const json::parse_error*>(&error);
  if (syntax == nullptr || syntax->byte == 0 || syntax->byte > text.size()) return "";
  // The parser stops at the letter that does not go on as it expects, for NaN and -Infinity the first.
  const std::string_view rest = text.substr(syntax->byte - 1);
  return rest.starts_with("NaN") || rest.starts_with("Infinity") ? ": NaN and Infinity are no numbers of JSON" : "";
}

}  // namespace

json parse_json(std::string_view text, const std::string& name) {
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    fail_config("{}: {}{}", name, why_not_json(error), note_on_number(text, error));
  }
}

json read_json_object(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) fail_config("{}: expected a file, found a folder", path.string());
  std::ifstream stream(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  if (!stream) fail_config("{}: there is no such file, or it cannot be read", path.string());
  json value = parse_json(text, path.string());
  if (!value.is_object()) {
    fail_config("{}: expected a JSON object, found {}", path.string(), value.type_name());
  }
  return value;
}

}  // namespace maxtext
