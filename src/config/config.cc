#include "config/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "base/error.h"
#include "config/keys.h"
#include "config/nearest.h"

namespace maxtext {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool contains(const std::vector<std::string>& items, const std::string& item) {
  return std::find(items.begin(), items.end(), item) != items.end();
}

[[noreturn]] void refuse(const Key& key, std::string_view text, const Source& source, std::string_view expected) {
  fail_config("{}={} ({}): {}", key.name, text, source.where, expected);
}

[[noreturn]] void refuse_unknown(std::string_view name, const Source& source) {
  std::vector<std::string_view> useful;
  for (const Key& key : all_keys()) {
    if (key.status != KeyStatus::ignored) useful.push_back(key.name);
  }
  std::string hint = did_you_mean(name, useful);
  if (hint.empty()) hint = did_you_mean(name, all_key_names());
  if (hint.empty()) hint = "; `maxtext config` lists all keys";
  fail_config("unknown key '{}' ({}){}", name, source.where, hint);
}

/// One word of an enumeration, in lower case.
std::string check_word(const Key& key, const std::string& word, std::string_view text, const Source& source) {
  if (key.allowed.empty()) return word;
  std::string name = lower(word);
  if (contains(key.allowed, name)) return name;
  const std::string allowed =
      fmt::format("use {}{}", allowed_phrase(key), key.allowed.size() == 1 ? ", which is what is there now" : "");
  if (contains(key.later, name)) refuse(key, text, source, fmt::format("{} is not implemented yet; {}", name, allowed));
  refuse(key, text, source, fmt::format("expected {}", allowed_phrase(key)));
}

void check_range(const Key& key, double number, std::string_view text, const Source& source) {
  if (key.minus_one && number == -1) return;
  const bool below = key.minimum && (key.minimum_excluded ? number <= *key.minimum : number < *key.minimum);
  const bool above = key.maximum && number > *key.maximum;
  if (below || above) {
    refuse(key, text, source, fmt::format("expected {}, {}", type_phrase(key.type()), allowed_phrase(key)));
  }
}

Value check_value(const Key& key, Value value, std::string_view text, const Source& source) {
  switch (type_of(value)) {
    case ValueType::boolean:
      break;
    case ValueType::integer:
      check_range(key, static_cast<double>(std::get<std::int64_t>(value)), text, source);
      break;
    case ValueType::real:
      check_range(key, std::get<double>(value), text, source);
      break;
    case ValueType::text:
      value = check_word(key, std::get<std::string>(value), text, source);
      break;
    case ValueType::list:
      for (std::string& item : std::get<std::vector<std::string>>(value)) item = check_word(key, item, text, source);
      break;
  }
  if (key.status == KeyStatus::fixed && key.allowed.empty() && value != key.default_value) {
    refuse(key, text, source, fmt::format("only {} is accepted ({})", format_value(key.default_value), key.help));
  }
  return value;
}

bool means_none(std::string_view text) {
  const std::string word = lower(std::string(text));
  return word == "none" || word == "null" || word == "~" || word.empty();
}

Value parse(const Key& key, std::string_view text, const Source& source) {
  if (key.none && means_none(text)) return *key.none;
  auto value = parse_value(key.type(), text);
  if (!value) {
    const std::string allowed = allowed_phrase(key);
    refuse(key, text, source,
           fmt::format("expected {}{}{}", type_phrase(key.type()), allowed.empty() ? "" : ", ", allowed));
  }
  return check_value(key, std::move(*value), text, source);
}

std::size_t position(std::string_view name) {
  const auto index = find_key(name);
  if (!index || all_keys()[*index].name != name) {
    throw std::logic_error(fmt::format("no configuration key is declared as '{}'", name));
  }
  return *index;
}

}  // namespace

Config::Config() {
  for (const Key& key : all_keys()) entries_.push_back({key.default_value, Source{}});
}

const Config::Entry& Config::entry(std::string_view key) const { return entries_[position(key)]; }

const Config::Entry& Config::readable_entry(std::string_view key, ValueType type) const {
  const Key& declared = all_keys()[position(key)];
  if (declared.status == KeyStatus::ignored) {
    throw std::logic_error(fmt::format("configuration key '{}' is declared as ignored, but read", key));
  }
  if (declared.type() != type) {
    throw std::logic_error(fmt::format("configuration key '{}' is declared as {}, but read as {}", key,
                                       type_name(declared.type()), type_name(type)));
  }
  return entry(key);
}

std::int64_t Config::integer(std::string_view key) const {
  return std::get<std::int64_t>(readable_entry(key, ValueType::integer).value);
}
double Config::real(std::string_view key) const { return std::get<double>(readable_entry(key, ValueType::real).value); }
bool Config::flag(std::string_view key) const { return std::get<bool>(readable_entry(key, ValueType::boolean).value); }
const std::string& Config::text(std::string_view key) const {
  return std::get<std::string>(readable_entry(key, ValueType::text).value);
}
const std::vector<std::string>& Config::list(std::string_view key) const {
  return std::get<std::vector<std::string>>(readable_entry(key, ValueType::list).value);
}

const Value& Config::value(std::string_view key) const { return entry(key).value; }
const Source& Config::source(std::string_view key) const { return entry(key).source; }
bool Config::is_set(std::string_view key) const { return source(key).kind != SourceKind::builtin; }

std::vector<std::string> Config::ignored_keys_set() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Key& key = all_keys()[i];
    if (key.status == KeyStatus::ignored && entries_[i].source.kind > SourceKind::base_file) names.push_back(key.name);
  }
  return names;
}

std::string Config::describe(std::string_view key) const {
  return fmt::format("{}={} ({})", key, format_value(value(key)), source(key).where);
}

void Config::set(std::string_view name, std::string_view text, const Source& source) {
  const auto index = find_key(name);
  if (!index) refuse_unknown(name, source);
  Entry& target = entries_[*index];
  Value value = parse(all_keys()[*index], text, source);
  // base.yml spells out every default; only what it changes counts as set.
  if (source.kind == SourceKind::base_file && value == all_keys()[*index].default_value) return;
  target = {std::move(value), source};
}

}  // namespace maxtext
