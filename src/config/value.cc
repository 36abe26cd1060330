#include "config/value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

namespace maxtext {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

/// "10_000" -> "10000", a leading plus is dropped; nothing when an underscore is not between digits.
std::optional<std::string> plain_number(std::string_view text) {
  text = trim(text);
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      result.push_back(text[i]);
    } else if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) {
      return std::nullopt;
    }
  }
  if (result.empty()) return std::nullopt;
  return result;
}

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  const auto digits = plain_number(text);
  if (!digits) return std::nullopt;
  Number number{};
  const char* end = digits->data() + digits->size();
  const auto result = std::from_chars(digits->data(), end, number);
  if (result.ec != std::errc{} || result.ptr != end) return std::nullopt;
  return number;
}

std::optional<Value> parse_boolean(std::string_view text) {
  const std::string word = lower(trim(text));
  if (word == "true" || word == "1") return Value(true);
  if (word == "false" || word == "0") return Value(false);
  return std::nullopt;
}

std::optional<Value> parse_real(std::string_view text) {
  const auto number = parse_number<double>(text);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  return Value(*number);
}

std::optional<Value> parse_integer(std::string_view text) {
  if (const auto number = parse_number<std::int64_t>(text)) return Value(*number);
  // 1e4 and 10000.0 are meant as integers; beyond 2^53 a double no longer says which one.
  const auto number = parse_number<double>(text);
  if (!number || std::abs(*number) > 9007199254740992.0 || *number != std::floor(*number)) return std::nullopt;
  return Value(static_cast<std::int64_t>(*number));
}

std::optional<Value> parse_flow_list(std::string_view text) {
  std::vector<std::string> items;
  try {
    const YAML::Node node = YAML::Load(std::string(text));
    if (!node.IsSequence()) return std::nullopt;
    for (const YAML::Node& item : node) {
      if (!item.IsScalar()) return std::nullopt;
      items.push_back(item.Scalar());
    }
  } catch (const YAML::Exception&) {
    return std::nullopt;
  }
  return Value(std::move(items));
}

std::optional<Value> parse_list(std::string_view text) {
  text = trim(text);
  if (!text.empty() && text.front() == '[') return parse_flow_list(text);
  std::vector<std::string> items;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view item = trim(text.substr(0, comma));
    if (item.empty()) return std::nullopt;
    items.emplace_back(item);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (trim(text).empty()) return std::nullopt;
  }
  return Value(std::move(items));
}

std::string double_quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result.push_back('\\');
    if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else {
      result.push_back(c);
    }
  }
  return result + "\"";
}

std::string format_text(const std::string& text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
  const bool plain = !text.empty() && text.find_first_not_of(kPlain) == std::string::npos &&
                     std::isalpha(static_cast<unsigned char>(text.front())) != 0 && !parse_boolean(text) &&
                     !parse_real(text) && lower(text) != "null";
  return plain ? text : double_quoted(text);
}

std::string format_list(const std::vector<std::string>& items) {
  std::vector<std::string> parts;
  for (const std::string& item : items) parts.push_back(format_text(item));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace

std::string_view type_phrase(ValueType type) {
  constexpr std::array<std::string_view, 5> kPhrases = {"true or false", "an integer", "a finite number", "a text",
                                                        "a list such as a,b or [a, b]"};
  return kPhrases[static_cast<std::size_t>(type)];
}

std::string_view type_name(ValueType type) {
  constexpr std::array<std::string_view, 5> kNames = {"bool", "int", "float", "string", "list"};
  return kNames[static_cast<std::size_t>(type)];
}

ValueType type_of(const Value& value) { return static_cast<ValueType>(value.index()); }

std::optional<Value> parse_value(ValueType type, std::string_view text) {
  switch (type) {
    case ValueType::boolean:
      return parse_boolean(text);
    case ValueType::integer:
      return parse_integer(text);
    case ValueType::real:
      return parse_real(text);
    case ValueType::text:
      return Value(std::string(text));
    case ValueType::list:
      return parse_list(text);
  }
  return std::nullopt;
}

std::string format_value(const Value& value) {
  switch (type_of(value)) {
    case ValueType::boolean:
      return std::get<bool>(value) ? "true" : "false";
    case ValueType::integer:
      return fmt::format("{}", std::get<std::int64_t>(value));
    case ValueType::real:
      return fmt::format("{}", std::get<double>(value));
    case ValueType::text:
      return format_text(std::get<std::string>(value));
    case ValueType::list:
      return format_list(std::get<std::vector<std::string>>(value));
  }
  return {};
}

}  // namespace maxtext
