// Typed values of configuration keys: parsing from YAML and command-line text, and printing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace maxtext {

enum class ValueType { boolean, integer, real, text, list };

/// The alternatives stand in the order of ValueType.
using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

/// "true or false", "an integer", ...: how an error message says what was expected.
std::string_view type_phrase(ValueType type);

/// "bool", "int", "float", "string", "list": how documentation names the type.
std::string_view type_name(ValueType type);

ValueType type_of(const Value& value);

/// Parses `text` as `type`; nothing when it is not one.
/// bool: true/false/1/0 in any case. integer: decimal, `_` between digits allowed, integral floats such as 1e4 too.
/// real: finite decimal, `_` allowed. list: `a,b`, `[a, b]` or `['a', 'b']`; empty text is the empty list.
std::optional<Value> parse_value(ValueType type, std::string_view text);

/// The value as YAML that parses back to an equal value.
std::string format_value(const Value& value);

}  // namespace maxtext
