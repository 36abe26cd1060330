// Typed access to an object of a config.json, with errors that name file, key, value and what was expected.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace maxtext {

/// One JSON object of the file, which must outlive it. A key that is null counts as absent, as in transformers; where
/// null means something else there, `is_null` tells. Readers throw ConfigError for values that are not what they say.
class HfSection {
 public:
  HfSection(const nlohmann::json& object, std::string name) : object_(&object), name_(std::move(name)) {}

  const nlohmann::json* find(const char* key) const;
  bool is_null(const char* key) const;

  std::optional<std::int64_t> size(const char* key) const;
  std::int64_t required_size(const char* key) const;
  std::optional<double> positive(const char* key) const;
  double required_positive(const char* key) const;
  bool flag(const char* key, bool otherwise) const;
  std::optional<std::string> text(const char* key) const;
  /// A part of the file, as rope_scaling; nothing when it is absent.
  std::optional<HfSection> section(const char* key) const;

  /// Throws ConfigError "FILE: key=value: expected ...", also for a key that has its default.
  [[noreturn]] void reject(const char* key, std::string_view expected) const;

  const std::string& name() const { return name_; }

 private:
  const nlohmann::json* object_;
  std::string name_;
};

}  // namespace maxtext
