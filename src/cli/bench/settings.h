// `key=value` arguments of a benchmark.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace maxtext::bench {

/// A key that a benchmark knows, its default as text, and what it means.
struct Setting {
  std::string name;
  std::string value;
  std::string help;
};

class Settings {
 public:
  /// Defaults, then `assignments`. Those with unknown keys go to `rest`, or are a ConfigError naming the nearest key
  /// when there is none.
  Settings(std::string_view benchmark, std::vector<Setting> settings, const std::vector<std::string>& assignments,
           std::vector<std::string>* rest = nullptr);

  /// Values of a key; lists are separated by commas and never empty. Throw ConfigError naming key, value and what is
  /// allowed.
  std::int64_t integer(std::string_view name, std::int64_t minimum = 1) const;
  std::vector<std::int64_t> integers(std::string_view name, std::int64_t minimum = 1) const;
  double real(std::string_view name) const;
  /// Each one of `allowed`.
  std::vector<std::string> words(std::string_view name, const std::vector<std::string_view>& allowed) const;
  const std::string& text(std::string_view name) const;

 private:
  const Setting& setting(std::string_view name) const;

  std::string benchmark_;
  std::vector<Setting> settings_;
};

}  // namespace maxtext::bench
