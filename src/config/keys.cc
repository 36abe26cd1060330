#include "config/keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

#include "config/key_groups.h"

namespace maxtext {
namespace {

std::vector<Key> make_all_keys() {
  std::vector<Key> keys;
  for (auto part : {run_keys(), engine_keys(), parallelism_keys(), model_keys(), data_keys(), training_keys(),
                    inference_keys(), fixed_keys(), ignored_keys()}) {
    for (KeyGroup& group : part) {
      for (Key& key : group.keys) {
        key.group = group.title;
        keys.push_back(std::move(key));
      }
    }
  }
  return keys;
}

const std::vector<Key>& key_table() {
  static const std::vector<Key> keys = make_all_keys();
  return keys;
}

std::unordered_map<std::string_view, std::size_t> make_index() {
  std::unordered_map<std::string_view, std::size_t> index;
  const auto add = [&](std::string_view name, std::size_t i) {
    if (!index.emplace(name, i).second)
      throw std::logic_error(fmt::format("configuration key '{}' declared twice", name));
  };
  for (std::size_t i = 0; i < key_table().size(); ++i) {
    add(key_table()[i].name, i);
    for (const std::string& alias : key_table()[i].aliases) add(alias, i);
  }
  return index;
}

const std::unordered_map<std::string_view, std::size_t>& key_index() {
  static const std::unordered_map<std::string_view, std::size_t> index = make_index();
  return index;
}

Key make_key(std::string name, Value value, std::string help) {
  Key key;
  key.name = std::move(name);
  key.default_value = std::move(value);
  key.help = std::move(help);
  return key;
}

std::string range_phrase(const Key& key) {
  if (!key.minimum) return "";
  const std::string_view above = key.minimum_excluded ? "above " : "";
  if (key.maximum) return fmt::format("{}{} to {}", above, *key.minimum, *key.maximum);
  return fmt::format("{}{}", key.minimum_excluded ? "above " : "at least ", *key.minimum);
}

}  // namespace

Key&& Key::at_least(double bound) && {
  minimum = bound;
  return std::move(*this);
}

Key&& Key::more_than(double bound) && {
  minimum = bound;
  minimum_excluded = true;
  return std::move(*this);
}

Key&& Key::at_most(double bound) && {
  maximum = bound;
  return std::move(*this);
}

Key&& Key::or_minus_one() && {
  minus_one = true;
  return std::move(*this);
}

Key&& Key::one_of(std::vector<std::string> values) && {
  allowed = std::move(values);
  return std::move(*this);
}

Key&& Key::not_yet(std::vector<std::string> values) && {
  later = std::move(values);
  return std::move(*this);
}

Key&& Key::none_is(Value value) && {
  none = std::move(value);
  return std::move(*this);
}

Key&& Key::also_called(std::string alias) && {
  aliases.push_back(std::move(alias));
  return std::move(*this);
}

Key&& Key::ours() && {
  is_ours = true;
  return std::move(*this);
}

Key boolean_key(std::string name, bool value, std::string help) {
  return make_key(std::move(name), value, std::move(help));
}
Key integer_key(std::string name, std::int64_t value, std::string help) {
  return make_key(std::move(name), value, std::move(help));
}
Key real_key(std::string name, double value, std::string help) {
  return make_key(std::move(name), value, std::move(help));
}
Key text_key(std::string name, std::string value, std::string help) {
  return make_key(std::move(name), std::move(value), std::move(help));
}
Key list_key(std::string name, std::vector<std::string> value, std::string help) {
  return make_key(std::move(name), std::move(value), std::move(help));
}

std::string allowed_phrase(const Key& key) {
  if (key.status == KeyStatus::fixed && key.allowed.empty()) return format_value(key.default_value);
  if (!key.allowed.empty()) return fmt::format("{}", fmt::join(key.allowed, ", "));
  return (key.minus_one ? "-1 or " : "") + range_phrase(key);
}

std::span<const Key> all_keys() { return key_table(); }

std::optional<std::size_t> find_key(std::string_view name) {
  const auto found = key_index().find(name);
  if (found == key_index().end()) return std::nullopt;
  return found->second;
}

std::vector<std::string_view> all_key_names() {
  std::vector<std::string_view> names;
  for (const auto& [name, position] : key_index()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace maxtext
