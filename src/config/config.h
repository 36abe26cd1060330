// The resolved configuration: one typed value per declared key, and where each value came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/value.h"

namespace maxtext {

/// Who gave a key its value; a later one beats an earlier one.
enum class SourceKind { builtin, base_file, model_file, run_file, environment, command_line };

struct Source {
  SourceKind kind = SourceKind::builtin;
  /// "default", "configs/models/llama2-7b.yml:3", "environment M_STEPS", "command line".
  std::string where = "default";
};

/// Values of all declared keys (config/keys.h). Copyable and immutable to its readers. The getters throw
/// std::logic_error for a key that is not declared, has another type, or is declared as ignored: a program error, found
/// by the first test that reaches it.
class Config {
 public:
  /// Every key at its default.
  Config();

  std::int64_t integer(std::string_view key) const;
  double real(std::string_view key) const;
  bool flag(std::string_view key) const;
  const std::string& text(std::string_view key) const;
  const std::vector<std::string>& list(std::string_view key) const;

  const Value& value(std::string_view key) const;
  const Source& source(std::string_view key) const;

  /// Someone gave the key a value that differs from its default, or gave it one outside base.yml.
  bool is_set(std::string_view key) const;

  /// Names of ignored keys that were given a value outside base.yml, for one line of notice at start-up.
  std::vector<std::string> ignored_keys_set() const;

  /// "steps=0 (command line)": how error messages begin.
  std::string describe(std::string_view key) const;

  /// Sets `key` (or the key it is an alias of) from text. Throws ConfigError, one line naming key, value, source and
  /// what is allowed: unknown keys (with the nearest names), wrong types, values out of range.
  void set(std::string_view key, std::string_view text, const Source& source);

 private:
  struct Entry {
    Value value;
    Source source;
  };
  const Entry& entry(std::string_view key) const;
  const Entry& readable_entry(std::string_view key, ValueType type) const;

  std::vector<Entry> entries_;  // in the order of all_keys()
};

}  // namespace maxtext
