#include "tokenizer/json_node.h"

#include <fmt/ranges.h>

namespace maxtext {

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  if (!value_->is_object()) refuse_kind("an object");
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  // "FILE: a.b": the file is parted from the keys by a colon, keys from each other by dots.
  const bool top = place_.find(": ") == std::string::npos;
  return JsonNode(*found, fmt::format("{}{}{}", place_, top ? ": " : ".", key));
}

JsonNode JsonNode::at(std::string_view key) const {
  auto found = find(key);
  if (!found) refuse("'{}' is missing", key);
  return *std::move(found);
}

std::string JsonNode::text() const {
  if (!value_->is_string()) refuse_kind("a string");
  return value_->get<std::string>();
}

std::int64_t JsonNode::integer() const {
  if (!value_->is_number_integer()) refuse_kind("an integer");
  if (value_->is_number_unsigned() && value_->get<std::uint64_t>() > INT64_MAX) refuse_kind("a smaller integer");
  return value_->get<std::int64_t>();
}

std::vector<JsonNode> JsonNode::list() const {
  if (!value_->is_array()) refuse_kind("a list");
  std::vector<JsonNode> nodes;
  nodes.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i) nodes.emplace_back((*value_)[i], fmt::format("{}[{}]", place_, i));
  return nodes;
}

std::string JsonNode::text_or(std::string_view key, std::string_view otherwise) const {
  const auto node = find(key);
  return node ? node->text() : std::string(otherwise);
}

bool JsonNode::boolean_or(std::string_view key, bool otherwise) const {
  const auto node = find(key);
  if (!node) return otherwise;
  if (!node->value_->is_boolean()) node->refuse_kind("true or false");
  return node->value_->get<bool>();
}

std::int64_t JsonNode::integer_or(std::string_view key, std::int64_t otherwise) const {
  const auto node = find(key);
  return node ? node->integer() : otherwise;
}

void JsonNode::refuse_type(std::initializer_list<std::string_view> supported) const {
  refuse("type '{}' is not supported; supported are {}", type(), fmt::join(supported, ", "));
}

void JsonNode::refuse_kind(std::string_view expected) const {
  const std::string found = value_->dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  refuse("expected {}, found {}", expected, found.size() > 40 ? found.substr(0, 40) + "..." : found);
}

}  // namespace maxtext
