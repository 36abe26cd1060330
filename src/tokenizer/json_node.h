// Values of a tokenizer's JSON files together with their place, so that every complaint names file and key.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace maxtext {

/// A view of a value, which must outlive it. null counts as absent everywhere. All members throw ConfigError, with file
/// and key, when the value is not of the type asked for.
class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string place) : value_(&value), place_(std::move(place)) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& place() const { return place_; }

  bool is_text() const { return value_->is_string(); }
  bool is_object() const { return value_->is_object(); }

  /// The member of an object, if it is there.
  std::optional<JsonNode> find(std::string_view key) const;
  JsonNode at(std::string_view key) const;

  std::string text() const;
  std::int64_t integer() const;
  std::vector<JsonNode> list() const;

  /// Members of an object, with a value in place of what is absent.
  std::string text(std::string_view key) const { return at(key).text(); }
  std::string text_or(std::string_view key, std::string_view otherwise) const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  std::int64_t integer_or(std::string_view key, std::int64_t otherwise) const;

  /// The text of "type".
  std::string type() const { return text("type"); }

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw ConfigError(place_ + ": " + fmt::format(format, std::forward<Args>(args)...));
  }

  /// "FILE: decoder: type 'CTC' is not supported; supported are A, B".
  [[noreturn]] void refuse_type(std::initializer_list<std::string_view> supported) const;

 private:
  [[noreturn]] void refuse_kind(std::string_view expected) const;

  const nlohmann::json* value_;
  std::string place_;
};

/// Components within components, as Sequences of Sequences, deeper than this are refused.
inline constexpr int kJsonDepth = 64;

}  // namespace maxtext
