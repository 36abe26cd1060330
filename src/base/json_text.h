// JSON from files and texts that others wrote, with errors that name file and byte.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace maxtext {

/// The value of `text`. Throws ConfigError "NAME: not valid JSON at byte N" (counted from 1).
nlohmann::json parse_json(std::string_view text, const std::string& name);

/// The object that the file holds. Throws ConfigError naming the file: for a folder, a file that cannot be read, text
/// that is not JSON (with the byte), and a value of another kind.
nlohmann::json read_json_object(const std::filesystem::path& path);

/// What the parser's exception says of the text: "not valid JSON at byte N", or that a number is out of range. For
/// callers that throw another error than parse_json does.
std::string why_not_json(const nlohmann::json::exception& error);

}  // namespace maxtext
