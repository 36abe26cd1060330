// Rules between keys, checked before any data is read.
#pragma once

#include <optional>

#include "config/config.h"

namespace maxtext {

struct RuleContext {
  std::optional<int> launched_devices;
  /// See ConfigRequest.
  bool check_files = true;
  bool saves_run = true;
  bool only_evaluates = false;
};

/// Throws ConfigError with one line naming key, value and what is allowed, for the first rule that is broken.
void check_rules(const Config& config, const RuleContext& context);

}  // namespace maxtext
